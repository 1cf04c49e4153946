// SPDX-License-Identifier: Apache-2.0
// FindEviction leaves out hosts that cannot have the cheapest eviction. Here every host is judged
// in full, and the choice has to be the same in random pools.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "pool/core/placing/preempt.h"

namespace farcall::pool {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
constexpr int kPools = 4000;

using Victims = std::vector<const Claim*>;

bool LeavesBefore(const Claim* a, const Claim* b) {
  return std::tie(a->ask.queue_priority, a->sessions, b->placed, a->id) <
         std::tie(b->ask.queue_priority, b->sessions, a->placed, b->id);
}

GpuUse Without(const Gpu& gpu, uint32_t device, const Victims& gone) {
  GpuUse use = gpu;
  for (const Claim* claim : gone) {
    if (std::count(claim->devices.begin(), claim->devices.end(), device) == 0) continue;
    use.used_bytes -= claim->held_bytes();
    use.used_milli -= claim->held_milli();
    use.exclusive -= claim->is_exclusive() ? 1 : 0;
    --use.claims;
  }
  return use;
}

// Every host in full, and no memory of what was found before.
class Exhaustive {
 public:
  Exhaustive(const Hosts& hosts, const Leavers& leavers, const Claim& claim)
      : hosts_(hosts), leavers_(leavers), claim_(claim) {}

  std::optional<Eviction> Find() const {
    std::optional<Eviction> best;
    std::optional<Cost> least;
    for (const auto& [name, host] : hosts_) {
      if (JudgeHost(host, claim_) != Filter::kNone) continue;
      std::optional<std::pair<std::vector<uint32_t>, Victims>> found = On(host);
      if (!found || found->second.empty()) continue;
      const Cost cost = CostOf(found->second);
      if (least && cost >= *least) continue;
      least = cost;
      best = Eviction{{{name, found->first}}, {}};
      for (const Claim* victim : found->second) best->victims.push_back(victim->id);
      std::sort(best->victims.begin(), best->victims.end());
    }
    return best;
  }

 private:
  using Cost = std::tuple<size_t, int64_t, uint64_t, int64_t>;

  static Cost CostOf(const Victims& victims) {
    size_t count = 0;
    int64_t priorities = 0, ages = 0;
    uint64_t sessions = 0;
    std::set<std::string> gangs;
    for (const Claim* victim : victims) {
      if (victim->gang.empty() || gangs.insert(victim->gang).second) count += victim->members();
      priorities += victim->ask.queue_priority;
      sessions += victim->sessions;
      ages -= victim->placed;
    }
    return {count, priorities, sessions, ages};
  }

  bool Fits(const Host& host, uint32_t device, const Victims& gone) const {
    return JudgeGpu(host.gpus[device], Without(host.gpus[device], device, gone), claim_) ==
           Filter::kNone;
  }

  std::optional<std::pair<std::vector<uint32_t>, Victims>> On(const Host& host) const {
    std::vector<uint32_t> devices;
    Victims gone;
    while (devices.size() < claim_.ask.count) {
      std::optional<std::pair<uint32_t, Victims>> best;
      for (uint32_t device = 0; device < host.gpus.size(); ++device) {
        if (std::count(devices.begin(), devices.end(), device) != 0) continue;
        std::optional<Victims> needed = Needed(host, device, gone);
        if (needed && (!best || needed->size() < best->second.size())) best = {device, *needed};
      }
      if (!best) return std::nullopt;
      devices.push_back(best->first);
      gone.insert(gone.end(), best->second.begin(), best->second.end());
    }
    std::sort(devices.begin(), devices.end());
    return std::pair(devices, gone);
  }

  std::optional<Victims> Needed(const Host& host, uint32_t device, const Victims& gone) const {
    Victims all;
    if (auto may = leavers_.find(host.name); may != leavers_.end()) all = may->second;
    std::erase_if(all, [&](const Claim* claim) {
      return std::count(gone.begin(), gone.end(), claim) != 0 ||
             std::count(claim->devices.begin(), claim->devices.end(), device) == 0;
    });
    std::sort(all.begin(), all.end(), LeavesBefore);
    auto fits = [&](const Victims& more) {
      Victims without = gone;
      without.insert(without.end(), more.begin(), more.end());
      return Fits(host, device, without);
    };
    if (!fits(all)) return std::nullopt;
    auto part = [&](const Claim* claim) {
      return static_cast<double>(claim->held_bytes()) /
                 static_cast<double>(host.gpus[device].memory_bytes) +
             static_cast<double>(claim->held_milli()) / kWholeMilli;
    };
    Victims by_size = all;
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](const Claim* a, const Claim* b) { return part(a) > part(b); });
    for (Victims* leave : {&all, &by_size})
      for (size_t i = leave->size(); i-- > 0;) {
        Victims fewer = *leave;
        fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
        if (fits(fewer)) *leave = fewer;
      }
    return by_size.size() < all.size() ? by_size : all;
  }

  const Hosts& hosts_;
  const Leavers& leavers_;
  const Claim& claim_;
};

class AnyPool {
 public:
  explicit AnyPool(uint64_t seed) : random_(seed) {
    for (uint64_t i = 0, hosts = 1 + Below(8); i < hosts; ++i) Fill("h" + std::to_string(i));
  }

  Claim AnyClaim() {
    Claim claim;
    claim.id = "new";
    claim.ask.count = static_cast<uint32_t>(1 + Below(3));
    claim.ask.memory_bytes = Below(3) == 0 ? 0 : (1 + Below(16)) * kGiB;
    claim.ask.share_milli = static_cast<uint32_t>(Below(3) * 400);
    if (Below(4) == 0) claim.ask.model = "A100";
    claim.ask.queue_priority = 5;
    return claim;
  }

  uint64_t Below(uint64_t end) { return random_() % end; }
  const Hosts& hosts() const { return hosts_; }
  const Leavers& leavers() const { return leavers_; }

 private:
  void Fill(const std::string& name) {
    Host& host = hosts_[name];
    host.name = name;
    host.state = Below(8) == 0 ? HostState::kSuspect : HostState::kReady;
    host.gpus.resize(1 + Below(4));
    for (Gpu& gpu : host.gpus) {
      gpu.name = Below(2) == 0 ? "A100" : "H100";
      gpu.memory_bytes = 16 * kGiB;
      if (Below(10) == 0) gpu.kept_for = Rank{9, 1};
    }
    for (uint64_t i = 0, tries = Below(12); i < tries; ++i) Hold(&host);
  }

  // If there is room.
  void Hold(Host* host) {
    const uint32_t first = static_cast<uint32_t>(Below(host->gpus.size()));
    Claim claim;
    claim.id = "c" + std::to_string(claims_.size());
    claim.host = host->name;
    claim.state = ClaimState::kActive;
    claim.devices = {first};
    if (Below(4) == 0 && first + 1 < host->gpus.size()) claim.devices.push_back(first + 1);
    claim.ask.memory_bytes = Below(5) == 0 ? 0 : (1 + Below(8)) * kGiB;
    claim.ask.share_milli = claim.share_milli = static_cast<uint32_t>(Below(4) * 200);
    claim.ask.queue_priority = static_cast<int32_t>(Below(3)) - 1;
    claim.sessions = static_cast<uint32_t>(Below(2));
    claim.placed = static_cast<Ms>(Below(4));
    claim.memory_bytes = claim.ask.memory_bytes == 0 ? 16 * kGiB : claim.ask.memory_bytes;
    if (Below(5) == 0) {
      claim.gang = "g" + std::to_string(Below(3));
      claim.gang_size = static_cast<uint32_t>(2 + Below(2));
    }
    for (uint32_t device : claim.devices)
      if (JudgeGpu(host->gpus[device], claim) != Filter::kNone) return;
    for (uint32_t device : claim.devices) {
      Gpu& gpu = host->gpus[device];
      gpu.used_bytes += claim.memory_bytes;
      gpu.used_milli += claim.ask.share_milli;
      gpu.exclusive += claim.is_exclusive() ? 1 : 0;
      ++gpu.claims;
    }
    const Claim& held = claims_[claim.id] = claim;
    if (Below(4) != 0) leavers_[host->name].push_back(&held);
  }

  std::mt19937_64 random_;
  Hosts hosts_;
  std::map<std::string, Claim> claims_;
  Leavers leavers_;
};

TEST(EvictionChoice, IsThatOfASearchThatLeavesNoHostOut) {
  int found = 0, several = 0;
  for (uint64_t seed = 0; seed < kPools; ++seed) {
    AnyPool pool(seed);
    const Claim claim = pool.AnyClaim();
    const std::optional<Eviction> best = FindEviction(
        pool.hosts(), pool.leavers(), [](const Claim&) { return true; }, claim);
    const std::optional<Eviction> expected = Exhaustive(pool.hosts(), pool.leavers(), claim).Find();
    ASSERT_EQ(best.has_value(), expected.has_value()) << "seed " << seed;
    if (!best) continue;
    ++found;
    several += best->victims.size() > 1 ? 1 : 0;
    ASSERT_EQ(best->places[0].host, expected->places[0].host) << "seed " << seed;
    ASSERT_EQ(best->places[0].devices, expected->places[0].devices) << "seed " << seed;
    ASSERT_EQ(best->victims, expected->victims) << "seed " << seed;
  }
  EXPECT_GT(found, kPools / 4);
  EXPECT_GT(several, kPools / 20);
}

// Who may leave is asked on hosts alone that could take the claim.
TEST(EvictionChoice, AsksNobodyOnAHostThatCannotTakeTheClaim) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    AnyPool pool(seed);
    const Claim claim = pool.AnyClaim();
    FindEviction(
        pool.hosts(), pool.leavers(),
        [&](const Claim& other) {
          EXPECT_EQ(JudgeHost(pool.hosts().at(other.host), claim), Filter::kNone);
          return true;
        },
        claim);
  }
}

}  // namespace
}  // namespace farcall::pool
