// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/placer.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "pool/core/placing/topology.h"

namespace farcall::pool {

namespace {

bool HasModel(const Gpu& gpu, const Ask& ask) {
  return (ask.model.empty() || gpu.name.find(ask.model) != std::string::npos) &&
         (ask.selector.is_empty() || MatchesGpu(ask.selector, gpu.name));
}

// What would be left of the GPU, both resources weighing alike: 0 = nothing, 2 = all of it.
double LeftOver(const Gpu& gpu, const Ask& ask) {
  uint64_t bytes = ask.memory_bytes == 0 ? gpu.lendable_bytes() : ask.memory_bytes;
  double memory = gpu.lendable_bytes() == 0 ? 0
                                            : static_cast<double>(gpu.free_bytes() - bytes) /
                                                  static_cast<double>(gpu.lendable_bytes());
  return memory + static_cast<double>(gpu.free_milli() - ShareOn(gpu, ask)) / kWholeMilli;
}

// For another claim than the one of that rank.
bool IsKept(const Gpu& gpu, const Rank& rank) {
  if (!gpu.kept_for) return false;
  if (!gpu.is_kept_strictly) return *gpu.kept_for < rank;
  return gpu.kept_for->queue_priority >= rank.queue_priority && !(*gpu.kept_for == rank);
}

// No GPU of the host has room: its GPUs need not be looked at.
bool IsTooFull(const Host& host, const Ask& ask) {
  return ask.memory_bytes == 0
             ? host.empty_gpus < ask.count
             : host.most_free_bytes < ask.memory_bytes || host.most_free_milli < ask.share_milli;
}

}  // namespace

bool MixesTflops(const Host& host, const Ask& ask) {
  if (ask.gflops == 0 || ask.count == 1) return false;
  uint32_t of_first = 0;
  for (const Gpu& gpu : host.gpus) {
    if (!HasModel(gpu, ask) || ShareOn(gpu, ask) > kWholeMilli) continue;
    if (of_first != 0 && gpu.gflops != of_first) return true;
    of_first = gpu.gflops;
  }
  return false;
}

double Emptiness(const Host& host) {
  double all = 0;
  for (const Gpu& gpu : host.gpus) {
    double bytes = gpu.lendable_bytes() == 0 ? 0
                                             : static_cast<double>(gpu.free_bytes()) /
                                                   static_cast<double>(gpu.lendable_bytes());
    all += bytes + static_cast<double>(gpu.free_milli()) / kWholeMilli;
  }
  return host.gpus.empty() ? 0 : all / static_cast<double>(host.gpus.size());
}

Filter JudgeHost(const Host& host, const Claim& claim) {
  if (claim.ask.group != host.group) return Filter::kGroup;
  if (!claim.ask.host.empty() && claim.ask.host != host.name) return Filter::kOtherHost;
  if (!claim.ask.selector.is_empty() && !MatchesHost(claim.ask.selector, host.name, host.labels))
    return Filter::kSelector;
  if (!AllowsNet(host, claim.ask)) return Filter::kNetwork;
  if (host.is_closed()) return Filter::kClosed;
  if (host.state != HostState::kReady) return Filter::kNotReady;
  if (claim.avoid.count(host.name) != 0) return Filter::kRefused;
  if (MixesTflops(host, claim.ask)) return Filter::kTflops;
  return Filter::kNone;
}

Filter JudgeGpu(const Gpu& gpu, const Claim& claim) {
  return JudgeGpu(gpu, gpu, claim);
}

Filter JudgeGpu(const Gpu& gpu, const GpuUse& use, const Claim& claim) {
  const Ask& ask = claim.ask;
  if (!HasModel(gpu, ask)) return Filter::kModel;
  const uint32_t share_milli = NeededShare(gpu, claim);
  if (share_milli > kWholeMilli) return Filter::kTflops;
  if (IsReserved(gpu, claim)) return Filter::kReserved;
  for (const std::string& model : claim.shut_models)
    if (gpu.name.find(model) != std::string::npos) return Filter::kQuota;
  for (const Claim::ShareCap& cap : claim.share_caps)
    if (share_milli > cap.milli && gpu.name.find(cap.model) != std::string::npos)
      return Filter::kQuota;
  bool wants_all = ask.memory_bytes == 0;
  if (ask.memory_bytes > gpu.memory_bytes) return Filter::kMemory;
  if (use.exclusive != 0 || (wants_all && use.claims != 0)) return Filter::kShared;
  if (ask.memory_bytes > gpu.FreeBytes(use)) return Filter::kMemory;
  if (share_milli > kWholeMilli - std::min(kWholeMilli, use.used_milli)) return Filter::kShare;
  if (IsKept(gpu, claim.rank()) &&
      (wants_all || ask.memory_bytes > gpu.guest_bytes || share_milli > gpu.guest_milli))
    return Filter::kKept;
  return Filter::kNone;
}

std::string_view ToText(Filter filter) {
  constexpr std::array<std::string_view, kFilters> kNames = {
      "fits",  "host_not_ready", "host_closed", "other_host",  "network", "refused_by_host",
      "model", "memory",         "share",       "shared",      "kept",    "too_few_on_host",
      "quota", "selector",       "reserved",    "other_group", "tflops"};
  return kNames[static_cast<size_t>(filter)];
}

void FindGpus(const Host& host, const Claim& claim, std::vector<Candidate>* fit) {
  const Ask& ask = claim.ask;
  fit->clear();
  if (IsTooFull(host, ask) || JudgeHost(host, claim) != Filter::kNone) return;
  for (uint32_t i = 0; i < host.gpus.size(); ++i)
    if (JudgeGpu(host.gpus[i], claim) == Filter::kNone)
      fit->push_back({host.gpus[i].claims == 0, LeftOver(host.gpus[i], ask), i});
  std::sort(fit->begin(), fit->end(), [&](const Candidate& a, const Candidate& b) {
    if (ask.placer == Placer::kSpread)
      return std::tuple(-a.left, a.device) < std::tuple(-b.left, b.device);
    return std::tuple(a.is_empty, a.left, a.device) < std::tuple(b.is_empty, b.left, b.device);
  });
}

namespace {

// GangPlaces are offered one after the other; the best remains.
class BestPlace {
 public:
  BestPlace(const Claim& claim, const PlacerInputs& inputs)
      : claim_(claim),
        demand_(claim.ask.placer == Placer::kFgd && inputs.demand != nullptr &&
                        !inputs.demand->is_empty()
                    ? inputs.demand
                    : nullptr) {
    if (claim.ask.placer == Placer::kNear && inputs.round_trips != nullptr)
      times_ = RoundTripsFrom(*inputs.round_trips, LabelOf(claim.ask.labels, kZoneLabel));
  }
  void Offer(const Host& host);
  std::optional<Place> Take() { return std::move(best_); }

 private:
  // (what the placer goes by, GPUs not begun yet, what is left, emptiness of the host): the least
  // wins; spread turns it round.
  using Score = std::tuple<double, double, double, double>;
  // Puts the GPUs first that the claim is to have, and says how good they are.
  double Choose(const Host& host);

  const Claim& claim_;
  const Demand* const demand_;
  std::map<std::string, uint32_t> times_;  // of near, by zone
  std::optional<Place> best_;
  Score best_score_{};
  std::vector<Candidate> fit_;
};

double BestPlace::Choose(const Host& host) {
  const Ask& ask = claim_.ask;
  if (demand_ != nullptr) return ChooseByFragments(host, ask, *demand_, &fit_);
  if (ask.placer == Placer::kTopology)
    return static_cast<double>(ChooseByTopology(host, ask.count, &fit_));
  if (ask.placer != Placer::kNear || times_.empty()) return 0;
  auto time = times_.find(LabelOf(host.labels, kZoneLabel));
  return time == times_.end() ? kFarUs : time->second;
}

void BestPlace::Offer(const Host& host) {
  const Ask& ask = claim_.ask;
  FindGpus(host, claim_, &fit_);
  if (fit_.size() < ask.count) return;
  const double chosen = Choose(host);
  fit_.resize(ask.count);
  double begun = 0, left = 0;
  for (const Candidate& candidate : fit_) {
    begun += candidate.is_empty ? 1 : 0;
    left += candidate.left;
  }
  const Score score = ask.placer == Placer::kSpread ? Score(-Emptiness(host), -left, 0, 0)
                                                    : Score(chosen, begun, left, Emptiness(host));
  if (best_ && score >= best_score_) return;
  best_score_ = score;
  best_ = Place{host.name, {}};
  for (const Candidate& candidate : fit_) best_->devices.push_back(candidate.device);
  std::sort(best_->devices.begin(), best_->devices.end());
}

}  // namespace

std::optional<Place> FindPlace(const Hosts& hosts, const Claim& claim, const PlacerInputs& inputs) {
  BestPlace best(claim, inputs);
  for (const auto& [name, host] : hosts) best.Offer(host);
  return best.Take();
}

std::optional<Place> FindPlace(const std::vector<const Host*>& hosts, const Claim& claim,
                               const PlacerInputs& inputs) {
  BestPlace best(claim, inputs);
  for (const Host* host : hosts) best.Offer(*host);
  return best.Take();
}

Pass Examine(const Hosts& hosts, const Claim& claim) {
  Pass pass;
  const Ask& ask = claim.ask;
  for (const auto& [name, host] : hosts) {
    Filter by_host = JudgeHost(host, claim);
    uint32_t fit = 0, ever = 0;
    for (const Gpu& gpu : host.gpus) {
      ++pass.gpus;
      Filter by = by_host != Filter::kNone ? by_host : JudgeGpu(gpu, claim);
      if (by == Filter::kMemory)
        pass.most_free_bytes =
            std::max(pass.most_free_bytes, std::min(gpu.memory_bytes, gpu.free_bytes()));
      if (by == Filter::kShare)
        pass.most_free_milli = std::max(pass.most_free_milli, gpu.free_milli());
      fit += by == Filter::kNone ? 1 : 0;
      ++pass.removed[static_cast<size_t>(by)];
      ever += HasModel(gpu, ask) && ask.memory_bytes <= gpu.memory_bytes &&
                      ShareOn(gpu, ask) <= kWholeMilli && !MixesTflops(host, ask)
                  ? 1
                  : 0;
    }
    bool is_possible = by_host != Filter::kOtherHost && by_host != Filter::kNetwork &&
                       by_host != Filter::kSelector && by_host != Filter::kGroup;
    const uint32_t count = std::max(ask.count, 1u);
    if (is_possible) pass.members_ever += ever / count;
    pass.members_now += fit / count;
    if (fit != 0 && fit < ask.count) {
      pass.removed[static_cast<size_t>(Filter::kNone)] -= fit;
      pass.removed[static_cast<size_t>(Filter::kTooFew)] += fit;
    }
  }
  pass.could_ever_fit = pass.members_ever >= claim.members();
  return pass;
}

}  // namespace farcall::pool
