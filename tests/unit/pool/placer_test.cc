// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/placer.h"

#include <gtest/gtest.h>

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

Host MakeHost(const std::string& name, std::vector<uint64_t> used_gib, uint64_t gib = 16) {
  Host host;
  host.name = name;
  host.state = HostState::kReady;
  for (uint64_t used : used_gib) {
    Gpu gpu;
    gpu.name = "Model A";
    gpu.memory_bytes = gib * kGiB;
    gpu.used_bytes = used * kGiB;
    gpu.claims = used != 0 ? 1 : 0;
    host.gpus.push_back(gpu);
  }
  return host;
}

Claim Asking(uint64_t gib, uint32_t count = 1) {
  Claim claim;
  claim.ask.memory_bytes = gib * kGiB;
  claim.ask.count = count;
  return claim;
}

uint32_t Removed(const Pass& pass, Filter filter) {
  return pass.removed[static_cast<size_t>(filter)];
}

TEST(Placer, PackTakesTheTightestBegunGpu) {
  Hosts hosts = {{"a", MakeHost("a", {0, 4})}, {"b", MakeHost("b", {10, 8})}};
  auto place = FindPlace(hosts, Asking(4));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->host, "b");
  EXPECT_EQ(place->devices, std::vector<uint32_t>{0});
}

TEST(Placer, SpreadTakesTheEmptiestHostAndGpu) {
  Hosts hosts = {{"a", MakeHost("a", {0, 12})}, {"b", MakeHost("b", {2, 1})}};
  Claim claim = Asking(4);
  claim.ask.placer = Placer::kSpread;
  auto place = FindPlace(hosts, claim);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->host, "b");
  EXPECT_EQ(place->devices, std::vector<uint32_t>{1});
}

TEST(Placer, SeveralGpusAreOfOneHost) {
  Hosts hosts = {{"a", MakeHost("a", {0})}, {"b", MakeHost("b", {0, 15, 0})}};
  auto place = FindPlace(hosts, Asking(4, 2));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->host, "b");
  EXPECT_EQ(place->devices, (std::vector<uint32_t>{0, 2}));
}

TEST(Placer, AWholeGpuIsAnEmptyOne) {
  Hosts hosts = {{"a", MakeHost("a", {1, 0})}};
  EXPECT_EQ(FindPlace(hosts, Asking(0))->devices, std::vector<uint32_t>{1});
  hosts.at("a").gpus[1].claims = hosts.at("a").gpus[1].exclusive = 1;
  EXPECT_FALSE(FindPlace(hosts, Asking(0)));
  hosts.at("a").gpus[0].claims = hosts.at("a").gpus[0].exclusive = 1;
  EXPECT_EQ(Removed(Examine(hosts, Asking(1)), Filter::kShared), 2u);
}

TEST(Placer, EachFilterIsCounted) {
  Hosts hosts = {
      {"a", MakeHost("a", {14, 0})}, {"b", MakeHost("b", {0})}, {"c", MakeHost("c", {0})}};
  hosts.at("b").is_cordoned = true;
  hosts.at("c").state = HostState::kSuspect;
  hosts.at("a").gpus[1].used_milli = 800;
  Claim claim = Asking(4);
  claim.ask.share_milli = 300;
  EXPECT_FALSE(FindPlace(hosts, claim));
  Pass pass = Examine(hosts, claim);
  EXPECT_EQ(pass.gpus, 4u);
  EXPECT_EQ(Removed(pass, Filter::kMemory), 1u);
  EXPECT_EQ(Removed(pass, Filter::kShare), 1u);
  EXPECT_EQ(Removed(pass, Filter::kClosed), 1u);
  EXPECT_EQ(Removed(pass, Filter::kNotReady), 1u);
  EXPECT_EQ(pass.most_free_bytes, 2 * kGiB);
  EXPECT_EQ(pass.most_free_milli, 200u);
  EXPECT_TRUE(pass.could_ever_fit);
  EXPECT_FALSE(Examine(hosts, Asking(17)).could_ever_fit);
  claim.ask.model = "Model B";
  EXPECT_EQ(Removed(Examine(hosts, claim), Filter::kModel), 2u);
}

TEST(Placer, NetworkIsAskedOfHostsThatAllowIt) {
  Hosts hosts = {{"a", MakeHost("a", {4})}, {"b", MakeHost("b", {0})}};
  hosts["a"].net_ceiling = 100'000'000;
  Claim claim = Asking(4);
  claim.ask.net_bytes_per_s = 100'000'000;
  EXPECT_EQ(FindPlace(hosts, claim)->host, "a");
  claim.ask.net_bytes_per_s = 100'000'001;
  EXPECT_EQ(FindPlace(hosts, claim)->host, "b");
  EXPECT_EQ(Removed(Examine(hosts, claim), Filter::kNetwork), 1u);
  hosts["b"].net_ceiling = 100'000'000;
  EXPECT_FALSE(FindPlace(hosts, claim));
  EXPECT_FALSE(Examine(hosts, claim).could_ever_fit);
}

}  // namespace
}  // namespace farcall::pool
