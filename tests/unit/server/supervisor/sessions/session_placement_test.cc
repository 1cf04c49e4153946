// SPDX-License-Identifier: Apache-2.0
// Which devices a session gets, whom it shares them with, and what its worker sees of them.
#include "server/supervisor/sessions/session_placement.h"

#include <gtest/gtest.h>

#include "server/device/uuid_text.h"
#include "server/supervisor/sessions/mps_groups.h"
#include "tests/unit/server/supervisor/sessions/session_parts_case.h"

namespace farcall::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class SessionPlacementTest : public testing::Test {
 protected:
  void SetModes(const char* text) {
    Result<DeviceModes> modes = ParseModes(text);
    ASSERT_TRUE(modes.ok());
    options_.modes = *modes;
  }
  static quota::ClaimGrant Claim(std::vector<uint32_t> devices) {
    quota::ClaimGrant grant;
    grant.claim = "c-1";
    grant.devices = std::move(devices);
    return grant;
  }

  ServeOptions options_;
  ProbedDevices devices_ = DevicesOf(3);
  SessionTable sessions_;
  SessionPlacement placement_{options_, devices_, sessions_};
};

TEST_F(SessionPlacementTest, ASessionHasAllDevicesAClaimItsOwn) {
  const quota::ClaimGrant grant = Claim({0, 2});
  EXPECT_EQ(placement_.DevicesFor("a", nullptr), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(placement_.DevicesFor("claim c-1", &grant), (std::vector<int>{0, 2}));
}

TEST_F(SessionPlacementTest, AVgpuKeepsItsInstanceAndANewOneTakesTheLeastUsed) {
  SetModes("mig");
  EXPECT_EQ(placement_.DevicesFor("a", nullptr), std::vector<int>{0});
  sessions_.Add(SessionOf(1, "a", {0}));
  EXPECT_EQ(placement_.DevicesFor("a", nullptr), std::vector<int>{0});
  EXPECT_EQ(placement_.DevicesFor("b", nullptr), std::vector<int>{1});
  EXPECT_TRUE(placement_.Check(*SessionOf(2, "b", {1})).ok());
  EXPECT_EQ(placement_.Check(*SessionOf(2, "b", {1, 2})).code(), Code::kRefused);
}

TEST_F(SessionPlacementTest, AnExclusiveDeviceHasOneVgpu) {
  SetModes("1=exclusive");
  sessions_.Add(SessionOf(1, "a", {0, 1}));
  EXPECT_TRUE(placement_.Check(*SessionOf(2, "a", {1})).ok());
  EXPECT_TRUE(placement_.Check(*SessionOf(3, "b", {0})).ok());
  const Status refused = placement_.Check(*SessionOf(4, "b", {0, 1}));
  EXPECT_EQ(refused.code(), Code::kRefused);
  EXPECT_EQ(refused.message(), "device 1 is exclusive: session 1 has it");
}

TEST_F(SessionPlacementTest, AClientOfMpsIsOneWithAllItsDevices) {
  SetModes("0=mps,1=slice,2=mps");
  const quota::ClaimGrant both = Claim({0, 2}), none = Claim({1});
  EXPECT_EQ(placement_.MpsGroupFor(nullptr), kAllSessions);
  EXPECT_EQ(placement_.MpsGroupFor(&both), "claim c-1");
  EXPECT_EQ(placement_.MpsGroupFor(&none), "");
  auto session = SessionOf(1, "claim c-1", {0, 2});
  session->mps_group = "claim c-1";
  EXPECT_TRUE(placement_.Check(*session).ok());
  session->devices = {0, 1};
  EXPECT_EQ(placement_.Check(*session).code(), Code::kRefused);
}

TEST_F(SessionPlacementTest, AWorkerSeesTheServersDevicesOrItsClaims) {
  auto session = SessionOf(1, "a", {0, 2});
  EXPECT_EQ(placement_.GpusOf(*session), "") << "no list: all of them";
  session->claim = "c-1";
  EXPECT_EQ(placement_.GpusOf(*session), "0,2");
  options_.gpus = "4,5,7";
  EXPECT_EQ(placement_.GpusOf(*session), "4,7");
  EXPECT_EQ(placement_.GpusOfAll(false), "4,5,7");
  EXPECT_EQ(placement_.GpusOfAll(true), "4,5,7");
  devices_.visible = {"MIG-a", "MIG-b", "MIG-c"};
  EXPECT_EQ(placement_.GpusOf(*session), "MIG-a,MIG-c");
  session->mps_group = "claim c-1";
  EXPECT_EQ(placement_.GpusOf(*session), UuidText(devices_.report.devices[0].uuid) + "," +
                                             UuidText(devices_.report.devices[2].uuid));
}

TEST(MpsClientLimits, AreTheTighterOfTheSessionsAndTheServers) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(MpsClientLimits({}, kWholeMilli, {512 * kMiB}),
            (Strings{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1024M"}));
  EXPECT_EQ(MpsClientLimits({.limit_milli = 255}, 500, {0, 512 * kMiB}),
            (Strings{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=26",
                     "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=512M,1=1024M"}));
  const Strings low = MpsClientLimits({.limit_milli = 900, .priority = 2}, 500, {0});
  EXPECT_EQ(low,
            (Strings{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
                     "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=512M", "CUDA_MPS_CLIENT_PRIORITY=1"}));
}

}  // namespace
}  // namespace farcall::server
