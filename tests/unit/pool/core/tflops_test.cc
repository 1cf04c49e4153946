// SPDX-License-Identifier: Apache-2.0
// Claims for TFLOPS: their share of device time follows from the model of the GPU.
#include "pool/core/model/tflops.h"

#include "pool/core/forecast.h"
#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

TEST(Tflops, AModelIsAWordOfAGpusName) {
  const std::vector<ModelTflops> table = {
      {"A10", 125'000}, {"A100", 312'000}, {"H100", 989'000}, {"H100 PCIe", 756'000}};
  auto of = [&](const char* gpu) { return GflopsOf(gpu, table); };
  EXPECT_EQ(of("NVIDIA A100-SXM4-80GB"), 312'000u);
  EXPECT_EQ(of("NVIDIA A10"), 125'000u);
  EXPECT_EQ(of("NVIDIA A10G"), 0u) << "another GPU, of which the table says nothing";
  EXPECT_EQ(of("NVIDIA RTX A1000"), 0u);
  EXPECT_EQ(of("NVIDIA H100 80GB HBM3"), 989'000u);
  EXPECT_EQ(of("NVIDIA H100 PCIe"), 756'000u) << "the longest model counts";
  EXPECT_EQ(of(""), 0u);
  EXPECT_EQ(FaultOf(table), "");
}

TEST(Tflops, ATableIsChecked) {
  using Table = std::vector<ModelTflops>;
  EXPECT_EQ(FaultOf(Table{{"A", 1}, {"A", 2}}), "model 'A' is there twice");
  EXPECT_EQ(FaultOf(Table{{"", 1}}), "model '': 1 to 128 characters, a letter or digit first");
  EXPECT_EQ(FaultOf(Table{{"A", 0}}), "model 'A': its TFLOPS are 0.001 to 100000");
  EXPECT_EQ(FaultOf(Table(1001, {"A", 1})), "1001 models with TFLOPS: at most 1000");
}

TEST(Tflops, AShareIsRoundedUpToAThousandth) {
  Gpu gpu;
  gpu.gflops = 312'000;
  Ask ask;
  ask.gflops = 40'000;
  EXPECT_EQ(ShareOn(gpu, ask), 129u);  // 128.2
  ask.gflops = 312'000;
  EXPECT_EQ(ShareOn(gpu, ask), 1000u);
  ask.gflops = 1;
  EXPECT_EQ(ShareOn(gpu, ask), 1u);
  ask.gflops = 312'001;
  EXPECT_GT(ShareOn(gpu, ask), kWholeMilli);
  gpu.gflops = 0;
  EXPECT_GT(ShareOn(gpu, ask), kWholeMilli);
}

// Host h has a GPU of "Model A".
class PoolTflops : public PoolCore {
 protected:
  using Fill = std::function<void(RequestClaim&)>;
  Effects Ask(const std::string& id, uint32_t tflops, const Fill& fill = nullptr) {
    RequestClaim request;
    request.id = id;
    request.ask.memory_bytes = kGiB;
    request.ask.gflops = tflops * 1000;
    if (fill) fill(request);
    return Do(request);
  }
  static SetGroup TableOf(std::vector<ModelTflops> table) {
    SetGroup set;
    set.group.name = kDefaultGroup;
    set.group.tflops = std::move(table);
    return set;
  }
  void Table(std::vector<ModelTflops> table) {
    EXPECT_FALSE(Do(TableOf(std::move(table))).refusal);
  }
  // A host with GPUs of those models.
  void Join(const std::string& name, std::vector<std::string> models) {
    models_[name] = std::move(models);
    Beat(0, name);
  }
  void Limit(std::optional<uint64_t> share_milli, std::vector<ModelBounds> models = {}) {
    SetProject set;
    set.project.name = kDefaultProject;
    set.project.limit.share_milli = share_milli;
    set.project.models = std::move(models);
    EXPECT_FALSE(Do(set).refusal);
  }
  uint32_t ShareOf(const std::string& id) { return core_.Find(id)->share_milli; }
  uint64_t UsedShare() { return core_.FindProject(kDefaultProject)->used.share_milli; }
};

TEST_F(PoolTflops, AClaimGetsThePartOfTheGpuThatItsTflopsAre) {
  Table({{"Model A", 200'000}});
  Ask("a", 50);
  EXPECT_EQ(core_.Find("a")->host, "h");
  EXPECT_EQ(ShareOf("a"), 250u);
  EXPECT_EQ(core_.hosts().at("h").gpus[0].used_milli, 250u);
  EXPECT_EQ(UsedShare(), 250u);
  Beat();
  ASSERT_EQ(granted_["h"].size(), 1u);
  EXPECT_EQ(granted_["h"][0].share_milli, 250u);
  EXPECT_EQ(core_.Explain(*core_.Find("a")).tflops, "50 TFLOPS are 25 % of Model A (200 TFLOPS)");
  EXPECT_EQ(core_.Explain(*core_.Find("a")).share_milli, 250u);
  Ask("b", 151);  // 755 of 750 that are left
  EXPECT_EQ(State("b"), ClaimState::kPending);
  EXPECT_EQ(ShareOf("b"), 0u);
  const Explanation told = core_.Explain(*core_.Find("b"));
  EXPECT_NE(told.why.find("1.0 GiB and 151 TFLOPS"), std::string::npos) << told.why;
  EXPECT_EQ(told.tflops, "151 TFLOPS are 75.5 % of Model A (200 TFLOPS)");
  EXPECT_EQ(told.pass.removed[static_cast<size_t>(Filter::kShare)], 1u);
  Ask("c", 150);
  EXPECT_EQ(ShareOf("c"), 750u);
  // A faster table is for those that come later.
  Table({{"Model A", 400'000}});
  EXPECT_EQ(ShareOf("c"), 750u);
  Do(ReleaseClaim{"a", "done", {}}), Do(ReleaseClaim{"c", "done", {}});
  Beat();
  Beat();
  EXPECT_EQ(ShareOf("b"), 378u) << "151 of 400, rounded up";
  EXPECT_EQ(UsedShare(), 378u);
}

TEST_F(PoolTflops, AChangeOfItsMemoryKeepsTheShareThatItHas) {
  Table({{"Model A", 200'000}});
  Ask("a", 50);
  Beat(), Beat();
  Table({{"Model B", 400'000}});
  ChangeClaim change;
  change.id = "a";
  change.memory_bytes = 2 * kGiB;
  EXPECT_FALSE(Do(change).refusal);
  EXPECT_EQ(ShareOf("a"), 250u);
  Beat(), Beat();
  EXPECT_EQ(granted_["h"][0].share_milli, 250u);
  EXPECT_EQ(granted_["h"][0].memory_bytes, 2 * kGiB);
  refuses_ = true;
  change.memory_bytes = 3 * kGiB;
  EXPECT_FALSE(Do(change).refusal);
  Beat(), Beat();
  EXPECT_EQ(core_.Find("a")->memory_bytes, 2 * kGiB);
  EXPECT_EQ(ShareOf("a"), 250u);
}

TEST_F(PoolTflops, ModelsThatTheTableLacksAreRefusedOrPassedOver) {
  Effects refused = Ask("a", 50);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->message, "50 TFLOPS: group 'default' has no table of models' TFLOPS");
  Table({{"Model B", 50'000}});
  refused = Ask("a", 50, [](auto& request) { request.ask.model = "Model A"; });
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->message,
            "model 'Model A' is not in the table of TFLOPS of group 'default'");
  EXPECT_EQ(refused.refusal->field, "tflops");
  EXPECT_FALSE(Ask("b", 50, [](auto& request) { request.ask.model = "Model B"; }).refusal);
  Ask("c", 50);
  const Explanation told = core_.Explain(*core_.Find("c"));
  EXPECT_EQ(told.pass.removed[static_cast<size_t>(Filter::kTflops)], 1u);
  EXPECT_FALSE(told.pass.could_ever_fit);
  EXPECT_NE(told.why.find("1 with too few TFLOPS, or of models that the table of TFLOPS lacks"),
            std::string::npos)
      << told.why;
  EXPECT_EQ(told.tflops, "50 TFLOPS are not known of Model A");
  Table({{"Model A", 40'000}});
  EXPECT_EQ(State("c"), ClaimState::kPending) << "too slow";
  EXPECT_EQ(core_.Explain(*core_.Find("c")).tflops,
            "50 TFLOPS are more than Model A has (40 TFLOPS)");
  EXPECT_TRUE(Do(TableOf({{"Model A", 50'000}})).shown_hosts.count("h") != 0);
  EXPECT_EQ(State("c"), ClaimState::kReserved);
  EXPECT_EQ(ShareOf("c"), 1000u);
}

TEST_F(PoolTflops, AGroupWithoutATableHasThatOfTheDefaultGroup) {
  SetGroup set;
  set.group.name = "g";
  set.group.hosts = {"h"};
  Do(set);
  Table({{"Model A", 100'000}});
  const Fill in_g = [](auto& request) { request.ask.group = "g"; };
  Ask("a", 50, in_g);
  EXPECT_EQ(ShareOf("a"), 500u);
  set.group.tflops = {{"Model A", 500'000}};
  Do(set);
  Ask("b", 50, in_g);
  EXPECT_EQ(ShareOf("b"), 100u);
}

TEST_F(PoolTflops, WhatDoesNotGoTogetherIsRefused) {
  Table({{"Model A", 200'000}});
  auto field = [&](const Fill& fill) { return Ask("a", 50, fill).refusal->field; };
  EXPECT_EQ(field([](auto& request) { request.ask.limit_milli = 500; }), "limit_milli");
  EXPECT_EQ(field([](auto& request) { request.ask.share_milli = 500; }), "tflops");
  EXPECT_EQ(field([](auto& request) { request.ask.gflops = kMaxGflops + 1; }), "tflops");
  Ask("a", 50);
  ChangeClaim change;
  change.id = "a";
  change.share_milli = 100;
  const Effects refused = Do(change);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->message,
            "claim 'a' asks for 50 TFLOPS: its share follows from its GPU");
}

TEST_F(PoolTflops, AClaimThatIsQueuedAgainHasNoShareUntilItHasAPlace) {
  Table({{"Model A", 200'000}});
  Ask("a", 50);
  full_for_ = {"a"};
  Beat();
  Beat();
  EXPECT_EQ(State("a"), ClaimState::kPending);
  EXPECT_EQ(ShareOf("a"), 0u);
  EXPECT_EQ(core_.hosts().at("h").gpus[0].used_milli, 0u);
  EXPECT_EQ(UsedShare(), 0u);
}

TEST_F(PoolTflops, ANewControllerKeepsTheShareWhateverTheTableSays) {
  Table({{"Model A", 200'000}});
  Ask("a", 50);
  Beat(), Beat();
  std::vector<Host> hosts = {core_.hosts().at("h")};
  hosts[0].gpus.clear();
  hosts[0].claims.clear();
  Core next;
  Group group = TableOf({{"Model A", 400'000}}).group;
  next.Load({*core_.Find("a")}, hosts, 0, {}, {}, {}, {group});
  HostReport report;
  report.host = "h";
  report.incarnation = incarnation_;
  report.beat = ++beat_;
  report.gpus.resize(1);
  report.gpus[0].name = "Model A";
  report.gpus[0].memory_bytes = 16 * kGiB;
  ReportedClaim told;
  told.claim = "a";
  told.epoch = core_.Find("a")->epoch;
  told.share_milli = 250;
  report.claims = {told};
  const Effects effects = next.Apply(report, now_);
  EXPECT_EQ(next.Broken(), "");
  ASSERT_EQ(effects.answer->grants.size(), 1u);
  EXPECT_EQ(effects.answer->grants[0].share_milli, 250u);
  EXPECT_EQ(next.Find("a")->share_milli, 250u);
  EXPECT_EQ(next.hosts().at("h").gpus[0].used_milli, 250u);
  EXPECT_EQ(next.hosts().at("h").gpus[0].gflops, 400'000u);
  EXPECT_EQ(next.FindProject(kDefaultProject)->used.share_milli, 250u);
}

TEST_F(PoolTflops, TheSameKeyGivesTheClaimThatHasAShareAlready) {
  Table({{"Model A", 200'000}});
  const Fill with_key = [](auto& request) { request.idempotency_key = "key"; };
  Ask("a", 50, with_key);
  const Effects again = Ask("b", 50, with_key);
  EXPECT_FALSE(again.refusal);
  EXPECT_EQ(again.claim, "a");
  EXPECT_TRUE(Ask("b", 60, with_key).refusal);
}

TEST_F(PoolTflops, AProjectsLimitOnSharesLeavesTheFasterGpus) {
  Table({{"Model A", 100'000}, {"Model B", 400'000}});
  Limit(200);
  Ask("slow", 50);  // half of h's GPU
  EXPECT_EQ(State("slow"), ClaimState::kPending);
  EXPECT_EQ(core_.Explain(*core_.Find("slow")).pass.removed[static_cast<size_t>(Filter::kQuota)],
            1u);
  Join("k", {"Model B"});
  EXPECT_EQ(core_.Find("slow")->host, "k");
  EXPECT_EQ(ShareOf("slow"), 125u);
  EXPECT_EQ(UsedShare(), 125u);
  Ask("next", 50);
  EXPECT_EQ(State("next"), ClaimState::kPending);
  Do(ReleaseClaim{"slow", "done", {}});
  Beat(0, "k"), Beat(0, "k");
  EXPECT_EQ(ShareOf("next"), 125u);
}

TEST_F(PoolTflops, AProjectsLimitOnTheSharesOfAModelIsKept) {
  Join("h", {"Model A", "Model A"});
  Table({{"Model A", 100'000}, {"Model B", 400'000}});
  ModelBounds bounds;
  bounds.model = "Model A";
  bounds.limit.share_milli = 500;
  Limit({}, {bounds});
  // Each of its members could have its share there, and not both.
  Ask("gang", 30, [](auto& request) { request.members = 2; });
  EXPECT_EQ(State("gang-0"), ClaimState::kPending);
  Ask("a", 40), Ask("b", 20);
  EXPECT_EQ(ShareOf("a"), 400u);
  EXPECT_EQ(State("b"), ClaimState::kPending);
  EXPECT_EQ(core_.FindProject(kDefaultProject)->of_models[0].share_milli, 400u);
  Join("k", {"Model B", "Model B"});
  EXPECT_EQ(core_.Find("gang-0")->host, "k");
  EXPECT_EQ(ShareOf("gang-0") + ShareOf("gang-1"), 150u);
  EXPECT_EQ(ShareOf("b"), 50u);
  EXPECT_EQ(core_.FindProject(kDefaultProject)->of_models[0].share_milli, 400u);
}

TEST_F(PoolTflops, AMemberOfAGangHasTheShareOfItsOwnGpu) {
  Join("k", {"Model B"});
  Table({{"Model A", 100'000}, {"Model B", 200'000}});
  Ask("gang", 60, [](auto& request) { request.members = 2; });
  std::map<std::string, uint32_t> shares;
  for (const char* member : {"gang-0", "gang-1"})
    shares[core_.Find(member)->host] = ShareOf(member);
  EXPECT_EQ(shares, (std::map<std::string, uint32_t>{{"h", 600}, {"k", 300}}));
  EXPECT_EQ(UsedShare(), 900u);
  EXPECT_EQ(core_.Explain(*core_.Find("gang-1")).share_milli, 900u);
}

TEST_F(PoolTflops, AnAlternativeMayAskForOtherTflops) {
  Table({{"Model A", 100'000}});
  const Fill sizes = [](auto& request) {
    request.ask.sizes = {{1, kGiB, 0, "", 80'000}, {1, kGiB, 0, "", 30'000}, {1, kGiB, 100, "", 0}};
    request.ask.Choose(0);
  };
  Ask("a", 80, sizes), Ask("b", 80, sizes);
  EXPECT_EQ(ShareOf("a"), 800u);
  EXPECT_EQ(core_.Find("b")->ask.choice, 2u);
  EXPECT_EQ(ShareOf("b"), 100u);
  Do(ReleaseClaim{"a", "done", {}});
  Beat(), Beat();
  Ask("c", 80, [&](auto& request) {
    sizes(request);
    request.ask.sizes[0].gflops = 95'000;
    request.ask.Choose(0);
  });
  EXPECT_EQ(core_.Find("c")->ask.choice, 1u);
  EXPECT_EQ(ShareOf("c"), 300u);
  EXPECT_EQ(UsedShare(), 400u);
}

TEST_F(PoolTflops, AClaimPreemptsAsManyAsItsShareThereNeeds) {
  Table({{"Model A", 100'000}});
  const Fill low = [](auto& request) {
    request.ask.preemptible = true;
    request.ask.queue_priority = -1;
  };
  Ask("a", 40, low), Ask("b", 50, low);
  Wait(120'000);
  Beat(1), Beat(1);
  Wait(120'000);
  Beat(1);
  Ask("high", 55);  // 550, of which 100 are free
  EXPECT_EQ(State("a"), ClaimState::kActive);
  EXPECT_EQ(State("b"), ClaimState::kPreempting) << "400 of a would not do";
}

TEST_F(PoolTflops, AClaimReclaimsNoMoreThanItsProjectDeserves) {
  Table({{"Model A", 100'000}});
  auto project = [&](const std::string& name, uint64_t deserved) {
    SetProject set;
    set.project.name = name;
    set.project.deserved.share_milli = deserved;
    Do(set);
  };
  project("owner", 400), project("guest", 100);
  Ask("guest", 90, [](auto& request) {
    request.ask.project = "guest";
    request.ask.preemptible = true;
  });
  Beat(1), Beat(1);
  Wait(120'000);
  Beat(1);
  const Fill of_owner = [](auto& request) { request.ask.project = "owner"; };
  Ask("much", 41, of_owner);
  EXPECT_EQ(State("guest"), ClaimState::kActive) << "410 of the 400 that it deserves";
  Ask("due", 40, of_owner);
  EXPECT_EQ(State("guest"), ClaimState::kPreempting);
}

TEST_F(PoolTflops, AForecastCountsTheShareOfEachGpu) {
  Table({{"Model A", 100'000}});
  const Fill lifetime = [](auto& request) { request.ask.lifetime_ms = 600'000; };
  Ask("runs", 60, lifetime);
  Beat(1), Beat(1);
  PoolCopy copy(core_, now_, 1000);
  farcall::pool::Ask small, large;
  small.memory_bytes = large.memory_bytes = kGiB;
  small.gflops = 40'000;
  large.gflops = 41'000;
  copy.Add(small, 0);
  EXPECT_EQ(*EstimateStart(copy, "plan").starts_in, 0);
  PoolCopy other(core_, now_, 1000);
  other.Add(large, 0);
  EXPECT_EQ(*EstimateStart(other, "plan").starts_in, 600'000);
}

TEST(PoolTflopsPlacer, SeveralGpusOfOneClaimAreEquallyFast) {
  Hosts hosts;
  Host& host = hosts["a"];
  host.name = "a";
  host.state = HostState::kReady;
  host.gpus.resize(3);
  for (Gpu& gpu : host.gpus) gpu.memory_bytes = 16 * kGiB, gpu.gflops = 100'000, gpu.name = "A";
  host.gpus[2].gflops = 200'000;
  host.gpus[2].name = "B";
  Claim claim;
  claim.ask.memory_bytes = kGiB;
  claim.ask.gflops = 50'000;
  EXPECT_TRUE(FindPlace(hosts, claim));
  claim.ask.count = 2;
  EXPECT_FALSE(FindPlace(hosts, claim));
  EXPECT_EQ(Examine(hosts, claim).removed[static_cast<size_t>(Filter::kTflops)], 3u);
  claim.ask.model = "A";
  EXPECT_TRUE(FindPlace(hosts, claim)) << "the other is of no model that it could have";
  claim.ask.model = "";
  host.gpus[2].gflops = 0;
  EXPECT_TRUE(FindPlace(hosts, claim)) << "the other is not in the table";
}

}  // namespace
}  // namespace farcall::pool
