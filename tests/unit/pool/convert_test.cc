// SPDX-License-Identifier: Apache-2.0
// What a host's report may say: numbers are bounded where it comes in.
#include "pool/convert/convert.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/fuzz/pool_world.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};

pb::HostReport SomeReport(uint64_t beat = 1) {
  pb::HostReport report;
  report.set_host("rogue");
  report.set_incarnation(1);
  report.set_beat(beat);
  report.add_gpus()->set_memory_bytes(kAll);
  return report;
}

pb::HeldClaim* AddClaim(pb::HostReport* report, const std::string& name) {
  pb::HeldClaim* claim = report->add_claims();
  claim->set_claim(name);
  claim->set_memory_bytes(kAll);
  claim->set_share_milli(~0u);
  claim->set_limit_milli(~0u);
  claim->set_priority(~0u);
  claim->set_seats(~0u);
  claim->set_net_bytes_per_s(kAll);
  return claim;
}

TEST(HostReports, BoundEveryNumber) {
  pb::HostReport told = SomeReport();
  AddClaim(&told, "x")->add_devices(0);
  auto report = FromProto(told);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const ReportedClaim& claim = report->claims[0];
  EXPECT_LE(report->gpus[0].memory_bytes, uint64_t{1} << 46);
  EXPECT_LE(claim.memory_bytes, uint64_t{1} << 46);
  EXPECT_EQ(claim.share_milli, 1000u);
  EXPECT_EQ(claim.limit_milli, 1000u);
  EXPECT_EQ(claim.priority, 2u);
  EXPECT_EQ(claim.seats, 4096u);
}

TEST(HostReports, CountAGpuOnceForAClaim) {
  pb::HostReport told = SomeReport();
  pb::HeldClaim* claim = AddClaim(&told, "x");
  for (int i = 0; i < 100; ++i) claim->add_devices(static_cast<uint32_t>(i % 2));
  auto report = FromProto(told);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->claims[0].devices, (std::vector<uint32_t>{0, 1}));
}

TEST(HostReports, RefuseWhatNoPoolGives) {
  pb::HostReport nameless = SomeReport(), last_epoch = SomeReport(), last_quota = SomeReport();
  AddClaim(&nameless, "");
  AddClaim(&last_epoch, "x")->set_epoch(kAll);
  AddClaim(&last_quota, "x")->set_quota(kAll);
  for (const pb::HostReport* told : {&nameless, &last_epoch, &last_quota})
    EXPECT_EQ(FromProto(*told).status().code(), Code::kInvalid);
}

// A host that names many large claims fills its GPUs, and does not empty them by a sum that comes
// round.
TEST(HostReports, SumsOfClaimsDoNotComeRound) {
  fuzz::PoolWorld world;
  constexpr int kClaims = 4096;
  pb::HostReport told = SomeReport();
  for (int i = 0; i < kClaims; ++i) {
    pb::HeldClaim* claim = AddClaim(&told, "x-" + std::to_string(i));
    for (int times = 0; times < 64; ++times) claim->add_devices(0);
  }
  auto report = FromProto(told);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_TRUE(world.service().controller().Apply(*report).answer);
  world.service().controller().Read([&](const Core& core, Ms) {
    const Gpu& gpu = core.hosts().at("rogue").gpus[0];
    EXPECT_EQ(gpu.claims, static_cast<uint32_t>(kClaims));
    EXPECT_EQ(gpu.used_bytes, (uint64_t{1} << 46) * kClaims);
    EXPECT_EQ(gpu.free_bytes(), 0u);
  });
}

TEST(Claims, AreStoredWithTheShareThatTheirTflopsCameTo) {
  Claim claim;
  claim.id = "c";
  claim.state = ClaimState::kBound;
  claim.host = "h";
  claim.devices = {0};
  claim.ask.memory_bytes = claim.memory_bytes = 1 << 20;
  claim.ask.gflops = 12'345;
  claim.ask.sizes = {
      {1, 1 << 20, 0, "", 12'345}, {2, 1 << 20, 0, "A", 1}, {1, 1 << 20, 250, "", 0}};
  claim.share_milli = 124;
  claim.before = Claim::Before{claim.ask, 1 << 20, 123};
  const pb::Claim told = ToProto(claim, nullptr);
  EXPECT_EQ(told.request().tflops(), 12.345);
  const Claim stored = FromProto(told);
  EXPECT_EQ(stored.ask.gflops, 12'345u);
  EXPECT_EQ(stored.ask.sizes, claim.ask.sizes);
  EXPECT_EQ(stored.share_milli, 124u);
  EXPECT_EQ(stored.before->share_milli, 123u);
  claim.state = ClaimState::kPending;
  claim.share_milli = 0;
  EXPECT_FALSE(ToProto(claim, nullptr).has_share_milli());
  EXPECT_EQ(FromProto(ToProto(claim, nullptr)).share_milli, 0u);
}

// Stored before there were TFLOPS.
TEST(Claims, OfOlderStoresHaveTheShareThatTheyAskedFor) {
  pb::Claim stored;
  stored.set_id("c");
  stored.set_state("bound");
  stored.set_host("h");
  stored.mutable_request()->set_share_milli(250);
  stored.set_changing(true);
  stored.mutable_before()->set_share_milli(500);
  EXPECT_EQ(FromProto(stored).share_milli, 250u);
  EXPECT_EQ(FromProto(stored).before->share_milli, 500u);
  stored.set_state("pending");
  EXPECT_EQ(FromProto(stored).share_milli, 0u);
}

TEST(Claims, TakeTflopsThatThereCanBe) {
  Ask ask;
  for (double tflops : {-1.0, 1e-4, 100'000.5, 1e300, static_cast<double>(NAN)}) {
    pb::ClaimRequest request;
    request.set_tflops(tflops);
    EXPECT_EQ(ToAsk(request, &ask)->field, "tflops") << tflops;
    pb::ClaimRequest other;
    other.add_alternatives()->set_tflops(tflops);
    EXPECT_EQ(ToAsk(other, &ask)->field, "alternatives") << tflops;
  }
}

TEST(HostStatuses, AreBoundedInOneAnswer) {
  fuzz::PoolWorld world;
  Service& service = world.service();
  control::v1::ServerStatus large, small;
  large.set_version(std::string(2u << 20, 'x'));
  small.set_version("1");
  service.NoteStatus("gpu1", large);
  service.NoteStatus("gpu2", small);
  pb::PoolStatus status;
  ASSERT_TRUE(service.GetStatus({true, ""}, &status).ok());
  ASSERT_EQ(status.hosts_size(), 2);
  EXPECT_EQ(status.hosts(0).status().version(), "");
  EXPECT_EQ(status.hosts(1).status().version(), "1");
}

}  // namespace
}  // namespace farcall::pool
