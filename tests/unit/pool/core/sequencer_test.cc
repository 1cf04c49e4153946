// SPDX-License-Identifier: Apache-2.0
// Sequencers: who is next.
#include "pool/core/placing/sequencer.h"

#include "tests/unit/pool/core/pool_core_case.h"

namespace farcall::pool {
namespace {

// A pool of GPUs of 16 GiB, two projects, and claims that end when they are told to.
class Order {
 public:
  Order(const std::string& sequencer, size_t gpus, Ms half_life = 3'600'000)
      : core_({.settle = 0, .aging = kNever}, {}, {sequencer, half_life}) {
    core_.Load({}, {}, 0);
    report_.host = "h";
    report_.incarnation = 1;
    report_.gpus.resize(gpus);
    for (Gpu& gpu : report_.gpus) gpu.memory_bytes = 16 * kGiB;
    Beat();
  }
  void Project(const std::string& name, uint32_t weight = 1, Bounds deserved = {}) {
    SetProject set;
    set.project.name = name;
    set.project.weight = weight;
    set.project.deserved = deserved;
    EXPECT_FALSE(Do(set).refusal);
  }
  void Ask(const std::string& id, const std::string& project, uint64_t gib, uint32_t share = 0,
           const std::string& tenant = "", int32_t priority = 0) {
    RequestClaim request;
    request.id = id;
    request.tenant = tenant;
    request.ask.project = project;
    request.ask.memory_bytes = gib * kGiB;
    request.ask.share_milli = share;
    request.ask.queue_priority = priority;
    EXPECT_FALSE(Do(request).refusal);
  }
  void End(const std::string& id) {
    Do(ReleaseClaim{id, "done", {}});
    Beat(), Beat();
  }
  void Beat() {
    ++report_.beat;
    report_.claims.clear();
    for (const std::string& id :
         core_.hosts().count("h") != 0 ? core_.hosts().at("h").claims : std::set<std::string>())
      if (const Claim& claim = *core_.Find(id); IsGranted(claim.state)) {
        ReportedClaim told;
        told.claim = id;
        told.epoch = claim.epoch;
        told.sessions = 1;
        report_.claims.push_back(told);
      }
    Do(report_);
  }
  void Later(Ms ms) { now_ += ms; }
  std::string Waiting() const {
    std::string text;
    for (const pool::Waiting& one : core_.InOrder(100))
      text += (text.empty() ? "" : " ") + one.claim->id;
    return text;
  }
  bool Runs(const std::string& id) const { return HoldsCapacity(core_.Find(id)->state); }
  const ProjectState& Of(const std::string& name) const { return *core_.FindProject(name); }
  Effects Do(const Event& event) {
    Effects effects = core_.Apply(event, now_);
    EXPECT_EQ(core_.Broken(), "");
    return effects;
  }
  Core core_;
  Ms now_ = 1000;

 private:
  HostReport report_;
};

TEST(PoolOrder, FifoAndLifoFollowTheOrderOfArrivalWhateverTheProject) {
  for (const char* name : {"fifo", "lifo"}) {
    Order order(name, 1);
    order.Project("a"), order.Project("b");
    order.Ask("full", "a", 16);
    order.Ask("1", "a", 16), order.Ask("2", "b", 16), order.Ask("3", "a", 8);
    order.Ask("high", "b", 16, 0, "", 1);
    EXPECT_EQ(order.Waiting(), std::string(name) == "fifo" ? "high 1 2 3" : "high 3 2 1");
    order.End("full"), order.End("high");
    EXPECT_TRUE(order.Runs(std::string(name) == "fifo" ? "1" : "3")) << name;
  }
}

TEST(PoolOrder, WhatDoesNotFitHoldsNobodyUp) {
  for (const std::string& name : SequencerNames()) {
    Order order(name, 1);
    order.Ask("half", "", 8);
    order.Ask("whole", "", 16);
    order.Ask("small", "", 4);
    EXPECT_FALSE(order.Runs("whole")) << name;
    EXPECT_TRUE(order.Runs("small")) << name;
  }
}

// The example of the paper on dominant resource fairness: of 9 and 18, user A asks for 1 and 4,
// user B for 3 and 1, each time again. A gets three, B two.
TEST(PoolOrder, DrfDividesAsInItsPaper) {
  Amounts capacity, a, b;
  capacity.share_milli = 9000;
  capacity.memory_bytes = 18 * kGiB;
  a.share_milli = 1000, a.memory_bytes = 4 * kGiB;
  b.share_milli = 3000, b.memory_bytes = 1 * kGiB;
  auto drf = MakeSequencer("drf");
  Standing of_a, of_b;
  std::string order;
  while (true) {
    const bool is_a = drf->ValueOf(of_a, capacity) <= drf->ValueOf(of_b, capacity);
    Amounts next = is_a ? a : b, all = of_a.used;
    all += of_b.used, all += next;
    if (all.share_milli > 9000 || all.memory_bytes > 18 * kGiB) break;
    (is_a ? of_a : of_b).used += next;
    order += is_a ? 'A' : 'B';
  }
  EXPECT_EQ(order, "ABABA");
  EXPECT_DOUBLE_EQ(DominantShare(of_a.used, capacity), 12.0 / 18);
  EXPECT_DOUBLE_EQ(DominantShare(of_b.used, capacity), 6.0 / 9);
}

TEST(PoolOrder, DrfGivesTheNextPlaceToWhoHoldsLeastForItsWeight) {
  Order order("drf", 4);
  order.Project("a", 3), order.Project("b", 1);
  for (const char* id : {"x1", "x2", "x3", "x4"}) order.Ask(id, "", 16);
  for (int i = 0; i < 4; ++i) order.Ask("b" + std::to_string(i), "b", 16);
  for (int i = 0; i < 4; ++i) order.Ask("a" + std::to_string(i), "a", 16);
  for (const char* id : {"x1", "x2", "x3", "x4"}) order.End(id);
  EXPECT_EQ(order.Of("a").held, 3u);
  EXPECT_EQ(order.Of("b").held, 1u);
}

TEST(PoolOrder, TenantsOfAProjectAreOrderedLikeItsChildren) {
  Order order("drf", 2);
  order.Project("a");
  order.Ask("x1", "", 16), order.Ask("x2", "", 16);
  for (int i = 0; i < 3; ++i) order.Ask("ann" + std::to_string(i), "a", 16, 0, "ann");
  order.Ask("ben0", "a", 16, 0, "ben");
  order.End("x1"), order.End("x2");
  EXPECT_TRUE(order.Runs("ann0"));
  EXPECT_TRUE(order.Runs("ben0"));
}

TEST(PoolOrder, AChildOfAPoorProjectDoesNotPassOneOfARichProject) {
  Order order("drf", 3);
  for (const char* name : {"rich", "poor", "rich/new", "poor/old"}) order.Project(name);
  order.Ask("r", "rich", 16), order.Ask("r2", "rich", 16), order.Ask("p", "poor/old", 16);
  order.Ask("new", "rich/new", 16), order.Ask("old", "poor/old", 16);
  EXPECT_EQ(order.Waiting(), "old new");  // whatever their own shares are
}

TEST(PoolOrder, AProjectBelowItsQuotaComesBeforeOneAboveUnderEachSequencer) {
  for (const std::string& name : SequencerNames()) {
    Order order(name, 2);
    order.Project("owner", 1, {.memory_bytes = 16 * kGiB, .share_milli = {}, .gpus = {}});
    order.Project("guest", 100);
    order.Ask("x", "", 16), order.Ask("y", "", 16);
    order.Ask("g1", "guest", 16), order.Ask("o1", "owner", 16), order.Ask("o2", "owner", 16),
        order.Ask("g2", "guest", 16);
    order.End("x");
    EXPECT_TRUE(order.Runs("o1") || order.Runs("o2")) << name;
    EXPECT_FALSE(order.Runs("g1") || order.Runs("g2")) << name;
  }
}

TEST(PoolOrder, FairRemembersWhatWasHeldAndForgetsItByHalf) {
  constexpr Ms kHour = 3'600'000;
  Order order("fair", 2, kHour);
  order.Project("a"), order.Project("b");
  order.Ask("a0", "a", 16), order.Ask("a1", "a", 16);
  order.Beat();
  order.Later(kHour);
  order.End("a0"), order.End("a1");
  const double used = order.Of("a").usage_ms;
  EXPECT_GT(used, 0.6 * kHour);
  order.Ask("x0", "", 16), order.Ask("x1", "", 16);
  order.Ask("a2", "a", 16), order.Ask("b0", "b", 16), order.Ask("b1", "b", 16);
  EXPECT_EQ(order.Waiting(), "b0 b1 a2");
  order.Later(kHour);
  order.Do(Tick{});
  EXPECT_NEAR(order.Of("a").usage_ms, used / 2, used * 1e-6);
}

// Claims of a minute each, more of them than there is room for: after two half-lives each project
// has had its weight's part to within 1 of 100.
TEST(PoolOrder, FairSharesAreWithinAPointAfterTwoHalfLives) {
  constexpr Ms kHour = 3'600'000, kMinute = 60'000;
  Order order("fair", 10, kHour);
  const std::map<std::string, uint32_t> weights = {{"a", 1}, {"b", 2}, {"c", 5}};
  uint32_t all_weights = 0;
  for (const auto& [name, weight] : weights) order.Project(name, weight), all_weights += weight;
  std::map<std::string, Ms> ends;
  size_t made = 0;
  for (Ms at = 0; at < 2 * kHour; at += kMinute / 4) {
    order.Later(kMinute / 4);
    for (const auto& [name, weight] : weights)
      for (size_t i = order.Of(name).pending; i < 12; ++i)
        order.Ask(name + std::to_string(++made), name, 16);
    for (const auto& [id, claim] : order.core_.claims()) {
      if (!HoldsCapacity(claim.state)) continue;
      // They do not all end together.
      ends.try_emplace(id, order.now_ + kMinute + static_cast<Ms>(ends.size() % 7) * 5000);
    }
    std::vector<std::string> over;
    for (const auto& [id, end] : ends)
      if (end <= order.now_ && order.Runs(id)) over.push_back(id);
    for (const std::string& id : over) order.Do(ReleaseClaim{id, "done", {}});
    order.Beat(), order.Beat(), order.Beat();
  }
  order.Do(Tick{});
  double all = 0;
  for (const auto& [name, weight] : weights) all += order.Of(name).usage_ms;
  for (const auto& [name, weight] : weights)
    EXPECT_NEAR(100 * order.Of(name).usage_ms / all, 100.0 * weight / all_weights, 1.0) << name;
}

}  // namespace
}  // namespace farcall::pool
