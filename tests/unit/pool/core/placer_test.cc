// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/placer.h"

#include <gtest/gtest.h>

#include "pool/core/placing/topology.h"

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

std::string HostOf(const std::optional<Place>& place) {
  return place ? place->host : "none";
}

TEST(Placer, EachNameIsOfOnePlacer) {
  EXPECT_EQ(PlacersText(), "pack, spread, fgd, near or topology");
  for (const std::string& name : PlacerNames()) EXPECT_EQ(ToText(*PlacerOf(name)), name);
  EXPECT_EQ(PlacerOf(""), Placer::kUnnamed);
  EXPECT_FALSE(PlacerOf("best"));
}

TEST(Placer, NearTakesTheZoneWithTheShortestRoundTrip) {
  Hosts hosts = {{"a", MakeHost("a", {8})},
                 {"b", MakeHost("b", {0})},
                 {"c", MakeHost("c", {0})},
                 {"d", MakeHost("d", {4})}};
  hosts.at("b").labels["zone"] = "far";
  hosts.at("c").labels["zone"] = "close";
  hosts.at("d").labels["zone"] = "home";
  const std::vector<RoundTrip> table = {{"home", "far", 9000}, {"close", "home", 300}};
  Claim claim = Asking(4);
  claim.ask.placer = Placer::kNear;
  EXPECT_EQ(HostOf(FindPlace(hosts, claim, {nullptr, &table})), "a") << "no zone: as pack";
  claim.ask.labels["zone"] = "home";
  EXPECT_EQ(HostOf(FindPlace(hosts, claim, {nullptr, &table})), "d") << "its own zone is at 0";
  hosts.at("d").is_cordoned = true;
  EXPECT_EQ(HostOf(FindPlace(hosts, claim, {nullptr, &table})), "c");
  hosts.at("c").is_cordoned = true;
  EXPECT_EQ(HostOf(FindPlace(hosts, claim, {nullptr, &table})), "b");
  hosts.at("b").is_cordoned = true;
  EXPECT_EQ(HostOf(FindPlace(hosts, claim, {nullptr, &table})), "a") << "what is not known is far";
}

TEST(Placer, ATableOfRoundTripsIsChecked) {
  EXPECT_EQ(FaultOf(std::vector<RoundTrip>{{"a", "b", 1}, {"a", "c", 0}}), "");
  EXPECT_EQ(FaultOf(std::vector<RoundTrip>{{"a", "b", 1}, {"b", "a", 2}}),
            "zones 'b' and 'a' are there twice");
  EXPECT_EQ(FaultOf(std::vector<RoundTrip>{{"a", "a", 1}}),
            "zone 'a' to itself: its round trip is 0");
  EXPECT_EQ(FaultOf(std::vector<RoundTrip>{{"a", "", 1}}),
            "'' is no zone: 1 to 63 letters, digits and . _ - /");
  EXPECT_EQ(FaultOf(std::vector<RoundTrip>{{"a", "b", 10'000'001}}),
            "zones 'a' and 'b': 10000001 us; at most 10000000");
  EXPECT_EQ(FaultOf(std::vector<RoundTrip>(1001, {"a", "b", 1})), "1001 round trips: at most 1000");
}

// What its GPUs' NVLink groups are called; "": it has none.
void Link(Host* host, const std::vector<std::string>& groups) {
  for (size_t i = 0; i < groups.size(); ++i)
    if (!groups[i].empty()) host->labels["nvlink-group." + std::to_string(i)] = groups[i];
  host->Arrange();
}

TEST(Placer, TopologyTakesGpusOfOneNvlinkGroup) {
  Hosts hosts = {{"a", MakeHost("a", {1, 0, 1, 0})}};
  Claim claim = Asking(4, 2);
  EXPECT_EQ(FindPlace(hosts, claim)->devices, (std::vector<uint32_t>{0, 2}));
  claim.ask.placer = Placer::kTopology;
  Link(&hosts.at("a"), {"x", "x", "y", "z"});
  EXPECT_EQ(FindPlace(hosts, claim)->devices, (std::vector<uint32_t>{0, 1}));
  // Of two groups the smaller, so that the larger stays whole.
  Hosts larger = {{"b", MakeHost("b", {0, 0, 0, 0, 0})}};
  Link(&larger.at("b"), {"x", "x", "x", "y", "y"});
  EXPECT_EQ(FindPlace(larger, claim)->devices, (std::vector<uint32_t>{3, 4}));
}

TEST(Placer, TopologyPrefersAnNvlinkGroupToANodeAndANodeToAHost) {
  Hosts hosts = {
      {"a", MakeHost("a", {1, 1})}, {"b", MakeHost("b", {1, 0, 1})}, {"c", MakeHost("c", {0, 0})}};
  hosts.at("b").gpus[0].numa_node = hosts.at("b").gpus[1].numa_node = 0;
  hosts.at("b").gpus[2].numa_node = 1;
  hosts.at("b").Arrange();
  Link(&hosts.at("c"), {"x", "x"});
  Claim claim = Asking(4, 2);
  EXPECT_EQ(HostOf(FindPlace(hosts, claim)), "a");
  claim.ask.placer = Placer::kTopology;
  EXPECT_EQ(HostOf(FindPlace(hosts, claim)), "c");
  hosts.at("c").is_cordoned = true;
  const std::optional<Place> place = FindPlace(hosts, claim);
  EXPECT_EQ(HostOf(place), "b");
  EXPECT_EQ(place->devices, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(ClosenessOf(hosts.at("b"), {0, 1}), Closeness::kNumaNode);
  EXPECT_EQ(ClosenessOf(hosts.at("b"), {0, 2}), Closeness::kHost);
  EXPECT_EQ(ClosenessOf(hosts.at("c"), {0, 1}), Closeness::kNvlinkGroup);
}

TEST(Placer, ALabelOfAGpuComesBeforeItsHostsReport) {
  Host host = MakeHost("a", {0, 0, 0});
  for (Gpu& gpu : host.gpus) gpu.numa_node = 0;
  host.labels = {{"numa-node.1", "7"}, {"nvlink-group", "all"}, {"nvlink-group.2", "none"}};
  host.Arrange();
  EXPECT_EQ(host.gpus[0].node, host.gpus[2].node);
  EXPECT_NE(host.gpus[0].node, host.gpus[1].node);
  EXPECT_EQ(host.gpus[0].link, host.gpus[1].link);
  EXPECT_NE(host.gpus[0].link, host.gpus[2].link);
  host.labels = {{"nvlink-group.1", "7"}};
  for (Gpu& gpu : host.gpus) gpu.nvlink_group = 3;
  host.Arrange();
  EXPECT_EQ(host.gpus[0].link, host.gpus[2].link);
  EXPECT_NE(host.gpus[0].link, 0u);
  EXPECT_NE(host.gpus[0].link, host.gpus[1].link);
}

}  // namespace
}  // namespace farcall::pool
