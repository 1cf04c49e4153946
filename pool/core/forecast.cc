// SPDX-License-Identifier: Apache-2.0
#include "pool/core/forecast.h"

#include <algorithm>
#include <set>
#include <utility>

#include "pool/core/placing/gang_placer.h"

namespace farcall::pool {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr Ms kTypicalRun = 3'600'000;
constexpr std::chrono::milliseconds kLongest(100);

// What decides where a claim fits.
std::string ShapeOf(const Claim& claim) {
  const Ask& ask = claim.ask;
  if (claim.state == ClaimState::kParked || !claim.avoid.empty()) return claim.id;
  std::string shape = std::to_string(ask.count) + ' ' + std::to_string(claim.members()) + ' ' +
                      std::to_string(ask.memory_bytes) + ' ' + std::to_string(ask.share_milli) +
                      ' ' + std::to_string(ask.gflops) + ' ' + std::to_string(ask.net_bytes_per_s) +
                      ' ' + std::to_string(ask.queue_priority) + ' ' +
                      std::string(ToText(ask.placer)) + ' ' + ask.model + '\n' + ask.host + '\n' +
                      ask.group + '\n' + ToText(ask.selector);
  for (const Size& size : ask.sizes)
    shape += '\n' + std::to_string(size.count) + ' ' + std::to_string(size.memory_bytes) + ' ' +
             std::to_string(size.share_milli) + ' ' + std::to_string(size.gflops) + ' ' +
             size.model;
  return shape;
}

// In the median, those that have ended lately and had a place.
Ms TypicalRun(const Core& core) {
  std::vector<Ms> runs;
  for (const auto& [id, claim] : core.claims())
    if (IsOver(claim.state) && claim.placed != 0 && claim.since > claim.placed)
      runs.push_back(claim.since - claim.placed);
  if (runs.empty()) return kTypicalRun;
  auto middle = runs.begin() + static_cast<ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end());
  return std::max<Ms>(*middle, 1000);
}

Ms LifetimeEnd(const Claim& claim) {
  return claim.ask.lifetime_ms == 0 ? kNever : After(claim.created, claim.ask.lifetime_ms);
}

}  // namespace

PoolCopy::PoolCopy(const Core& core, Ms now, size_t most)
    : now_(now), typical_run_(TypicalRun(core)), hosts_(core.hosts()) {
  for (const auto& [id, claim] : core.claims())
    if (HoldsGpus(claim))
      runs_.push_back({claim.host, claim.devices, claim.held_bytes(), claim.held_milli(),
                       claim.is_exclusive(), claim.placed == 0 ? now : claim.placed,
                       claim.state == ClaimState::kReleasing ? now : LifetimeEnd(claim)});
  for (const auto& [name, reservation] : core.reservations())
    reservations_[name] = reservation.number;
  for (const Waiting& waiting : core.InOrder(most))
    if (waiting.limit.empty()) queue_.push_back(*waiting.claim);
  for (const auto& [name, state] : core.groups())
    if (state.pending != 0 || state.group.placer == Placer::kFgd)
      demands_[KeptGroup(name)] = state.demand;
  for (const auto& [name, state] : core.groups())
    round_trips_[KeptGroup(name)] = core.RoundTripsOf(state.group);
}

void PoolCopy::Add(const Ask& ask, uint32_t members) {
  Claim claim;
  claim.id = "plan";
  claim.ask = ask;
  claim.turn = UINT64_MAX;
  claim.created = now_;
  claim.ends = LifetimeEnd(claim);
  if (!ask.reservation.empty()) {
    auto found = reservations_.find(ask.reservation);
    claim.reservation = found == reservations_.end() ? UINT64_MAX : found->second;
  }
  if (members != 0) {
    claim.gang = "plan";
    claim.gang_size = members;
  }
  auto behind = std::find_if(queue_.begin(), queue_.end(), [&](const Claim& other) {
    return other.ask.queue_priority < ask.queue_priority;
  });
  queue_.insert(behind, std::move(claim));
}

bool PoolCopy::Waits(const std::string& claim) const {
  return std::any_of(queue_.begin(), queue_.end(),
                     [&](const Claim& one) { return one.id == claim; });
}

class PoolCopy::Course {
 public:
  Course(const PoolCopy& copy, double factor) : copy_(copy), factor_(factor), hosts_(copy.hosts_) {
    for (const Run& run : copy.runs_) Begin(run, /*is_new=*/false);
  }

  Forecast Take(SteadyClock::time_point until) {
    Forecast forecast;
    std::vector<const Claim*> waiting;
    for (const Claim& claim : copy_.queue_) waiting.push_back(&claim);
    Ms now = copy_.now_;
    while (!waiting.empty()) {
      if (!TryAll(&waiting, now, until, &forecast)) {
        forecast.is_cut_short = true;
        break;
      }
      if (waiting.empty() || ends_.empty()) break;
      now = std::max(now, ends_.begin()->first);
      while (!ends_.empty() && ends_.begin()->first <= now) End();
    }
    return forecast;
  }

 private:
  // False: the time is over.
  bool TryAll(std::vector<const Claim*>* waiting, Ms now, SteadyClock::time_point until,
              Forecast* forecast) {
    std::set<std::string> failed;
    std::vector<const Claim*> still;
    bool in_time = true;
    for (const Claim* claim : *waiting) {
      in_time = in_time && SteadyClock::now() < until;
      if (LifetimeEnd(*claim) <= now) continue;  // it is over before it starts
      std::string shape = ShapeOf(*claim);
      if (!copy_.reservations_.empty())
        shape += '\n' + std::to_string(claim->reservation) + ' ' + std::to_string(claim->ends);
      std::optional<GangPlaces> places;
      Claim chosen = *claim;
      if (in_time && failed.count(shape) == 0) places = FindAny(&chosen);
      if (!places) {
        failed.insert(std::move(shape));
        still.push_back(claim);
        continue;
      }
      Ms ends = now;
      for (const Place& place : *places) ends = std::max(ends, Put(chosen, place, now));
      Free(claim->rank());
      Expected& expected = forecast->claims[claim->id];
      expected.starts_in = now - copy_.now_;
      expected.ends_in = ends - copy_.now_;
    }
    *waiting = std::move(still);
    return in_time;
  }

  // The first of its alternatives that fits, as which it is left.
  std::optional<GangPlaces> FindAny(Claim* claim) const {
    if (claim->state == ClaimState::kParked || claim->ask.sizes.empty()) return Find(*claim);
    for (uint32_t choice = 0; choice < claim->ask.choices(); ++choice) {
      claim->ask.Choose(choice);
      if (std::optional<GangPlaces> places = Find(*claim)) return places;
    }
    return std::nullopt;
  }

  std::optional<GangPlaces> Find(const Claim& claim) const {
    if (claim.state != ClaimState::kParked) {
      auto demand = copy_.demands_.find(claim.ask.group);
      auto times = copy_.round_trips_.find(claim.ask.group);
      return FindPlaces(hosts_, claim,
                        {demand == copy_.demands_.end() ? nullptr : &demand->second,
                         times == copy_.round_trips_.end() ? nullptr : &times->second});
    }
    const Host& host = hosts_.at(claim.host);
    for (uint32_t device : claim.devices)
      if (device >= host.gpus.size() || JudgeGpu(host.gpus[device], claim) != Filter::kNone)
        return std::nullopt;
    return GangPlaces{{claim.host, claim.devices}};
  }

  Ms Put(const Claim& claim, const Place& place, Ms now) {
    const Host& host = hosts_.at(place.host);
    Run run{place.host,
            place.devices,
            claim.ask.memory_bytes,
            claim.state == ClaimState::kParked ? claim.share_milli
                                               : ShareOn(host, place.devices, claim.ask),
            claim.ask.memory_bytes == 0,
            now,
            LifetimeEnd(claim)};
    if (run.is_exclusive) {
      run.bytes = UINT64_MAX;
      for (uint32_t device : place.devices)
        run.bytes = std::min(run.bytes, host.gpus[device].memory_bytes);
    }
    return Begin(run, /*is_new=*/true);
  }

  // When it ends. What runs already is counted in the copy.
  Ms Begin(const Run& run, bool is_new) {
    if (is_new) Count(run, true);
    const auto typical = static_cast<Ms>(factor_ * static_cast<double>(copy_.typical_run_));
    Ms ends = After(run.begun, typical);
    // One that has run for longer goes on for as long again.
    if (ends <= copy_.now_) ends = After(copy_.now_, (copy_.now_ - run.begun) / 2);
    if (run.latest != kNever) {
      const Ms from = std::max(run.begun, copy_.now_);
      const double part = std::min(factor_, 1.0);
      ends = std::max(copy_.now_,
                      from + static_cast<Ms>(part * static_cast<double>(run.latest - from)));
    }
    ends_.emplace(ends, run);
    return ends;
  }

  void End() {
    const Run run = ends_.begin()->second;
    ends_.erase(ends_.begin());
    Count(run, false);
  }

  void Count(const Run& run, bool held) {
    auto host = hosts_.find(run.host);
    if (host == hosts_.end()) return;
    for (uint32_t device : run.devices) {
      if (device >= host->second.gpus.size()) continue;
      Gpu& gpu = host->second.gpus[device];
      gpu.used_bytes += held ? run.bytes : uint64_t{0} - run.bytes;
      gpu.used_milli += held ? run.milli : 0u - run.milli;
      gpu.claims += held ? 1 : 0u - 1;
      if (run.is_exclusive) gpu.exclusive += held ? 1 : 0u - 1;
    }
    host->second.Summarise();
  }

  // A place that was kept for it.
  void Free(const Rank& rank) {
    for (auto& [name, host] : hosts_)
      for (Gpu& gpu : host.gpus)
        if (gpu.kept_for == rank) gpu.kept_for.reset();
  }

  const PoolCopy& copy_;
  const double factor_;
  Hosts hosts_;
  std::multimap<Ms, Run> ends_;
};

Forecast PoolCopy::Foresee(double factor, SteadyClock::time_point until) const {
  return Course(*this, factor).Take(until);
}

std::string BasisOf(const PoolCopy& copy) {
  return "claims with a lifetime run to its end, others for " +
         std::to_string(copy.typical_run() / 1000) +
         " s; nobody else comes, and nobody is preempted";
}

StartEstimate EstimateStart(const PoolCopy& copy, const std::string& claim) {
  const SteadyClock::time_point begun = SteadyClock::now();
  StartEstimate estimate;
  estimate.basis = BasisOf(copy);
  int step = 0;
  auto starts = [&](double factor) {
    const Forecast forecast = copy.Foresee(factor, begun + ++step * kLongest / 3);
    estimate.is_cut_short = estimate.is_cut_short || forecast.is_cut_short;
    auto found = forecast.claims.find(claim);
    return found == forecast.claims.end() ? std::nullopt : found->second.starts_in;
  };
  estimate.starts_in = starts(1);
  estimate.earliest = starts(0.5);
  estimate.latest = starts(2);
  // Where others come before it, a shorter run can be the later start.
  if (estimate.earliest && estimate.starts_in)
    estimate.earliest = std::min(*estimate.earliest, *estimate.starts_in);
  if (estimate.latest && estimate.starts_in)
    estimate.latest = std::max(*estimate.latest, *estimate.starts_in);
  return estimate;
}

}  // namespace farcall::pool
