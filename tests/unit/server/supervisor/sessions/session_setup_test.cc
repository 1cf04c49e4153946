// SPDX-License-Identifier: Apache-2.0
// What a worker and its client are told of a session.
#include "server/supervisor/sessions/session_setup.h"

#include <gtest/gtest.h>

#include "proto/handshake/session_features.h"
#include "tests/unit/server/supervisor/sessions/session_parts_case.h"

namespace farcall::server {
namespace {

class SessionSetupTest : public testing::Test {
 protected:
  WorkerSetup Make(const WorkerSession& session) {
    return setup_.Make(session, hello_, folders_, facts_);
  }

  ServeOptions options_;
  ProbedDevices devices_ = DevicesOf(3);
  AdmissionPolicy policy_{options_};
  SessionSetup setup_{options_, devices_, policy_};
  Hello hello_;
  SessionFolders folders_;
  SessionSetup::Facts facts_;
};

TEST_F(SessionSetupTest, WhatOpensAnythingStaysWithTheSupervisor) {
  hello_.vgpu = "token of a run";
  hello_.lease = "lease";
  hello_.claim = "c-1";
  hello_.program = "train.py";
  hello_.credentials.emplace_back();
  facts_.quotas_bytes = {1};
  const WorkerSetup setup = Make(*SessionOf(1, "a"));
  EXPECT_TRUE(setup.hello.vgpu.empty());
  EXPECT_TRUE(setup.hello.lease.empty());
  EXPECT_TRUE(setup.hello.claim.empty());
  EXPECT_TRUE(setup.hello.credentials.empty());
  EXPECT_EQ(setup.hello.program, "train.py");
}

TEST_F(SessionSetupTest, AClientIsToldOfItsOwnDevicesAsItsQuotaHasThem) {
  facts_.quotas_bytes = {100, 200};
  const Welcome welcome = Make(*SessionOf(7, "a", {2, 0})).welcome;
  ASSERT_EQ(welcome.devices.size(), 2u);
  EXPECT_EQ(welcome.session[0], 7);
  EXPECT_EQ(welcome.devices[0].name, "device 2");
  EXPECT_EQ(welcome.devices[0].total_bytes, 100u);
  EXPECT_EQ(welcome.devices[1].total_bytes, 200u);
  // By the session's numbers: not itself, its other one.
  EXPECT_EQ(welcome.devices[0].peer_access, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(welcome.devices[1].peer_access, (std::vector<uint8_t>{1, 0}));
}

TEST_F(SessionSetupTest, SharedMemoryIsOfferedToThoseWhoAskForIt) {
  setup_.OfferSharedMemoryAt("/run/farcall.sock");
  Welcome welcome;
  setup_.Describe(hello_, &welcome);
  EXPECT_TRUE(welcome.shm_path.empty());
  hello_.features |= FeatureBit(SessionFeature::kSharedMemory);
  setup_.Describe(hello_, &welcome);
  EXPECT_EQ(welcome.shm_path, "/run/farcall.sock");
  EXPECT_EQ(welcome.device_kind, "cpu");
  EXPECT_FALSE(setup_.UsesFabric(hello_));
}

}  // namespace
}  // namespace farcall::server
