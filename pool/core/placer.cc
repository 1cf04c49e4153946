// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placer.h"

#include <algorithm>

namespace farcall::pool {

namespace {

bool HasModel(const Gpu& gpu, const Ask& ask) {
  return ask.model.empty() || gpu.name.find(ask.model) != std::string::npos;
}

// What would be left of the GPU, both resources weighing alike: 0 = nothing, 2 = all of it.
double LeftOver(const Gpu& gpu, const Ask& ask) {
  uint64_t bytes = ask.memory_bytes == 0 ? gpu.memory_bytes : ask.memory_bytes;
  double memory = gpu.memory_bytes == 0 ? 0
                                        : static_cast<double>(gpu.free_bytes() - bytes) /
                                              static_cast<double>(gpu.memory_bytes);
  return memory + static_cast<double>(gpu.free_milli() - ask.share_milli) / kWholeMilli;
}

double Emptiness(const Host& host) {
  double all = 0;
  for (const Gpu& gpu : host.gpus) {
    double bytes = gpu.memory_bytes == 0 ? 0
                                         : static_cast<double>(gpu.free_bytes()) /
                                               static_cast<double>(gpu.memory_bytes);
    all += bytes + static_cast<double>(gpu.free_milli()) / kWholeMilli;
  }
  return host.gpus.empty() ? 0 : all / static_cast<double>(host.gpus.size());
}

struct Candidate {
  bool is_empty = false;
  double left = 0;
  uint32_t device = 0;
};

}  // namespace

Filter JudgeHost(const Host& host, const Claim& claim) {
  if (!claim.ask.host.empty() && claim.ask.host != host.name) return Filter::kOtherHost;
  if (!AllowsNet(host, claim.ask)) return Filter::kNetwork;
  if (host.is_closed()) return Filter::kClosed;
  if (host.state != HostState::kReady) return Filter::kNotReady;
  if (claim.avoid.count(host.name) != 0) return Filter::kRefused;
  return Filter::kNone;
}

Filter JudgeGpu(const Gpu& gpu, const Claim& claim) {
  const Ask& ask = claim.ask;
  if (!HasModel(gpu, ask)) return Filter::kModel;
  bool wants_all = ask.memory_bytes == 0;
  if (ask.memory_bytes > gpu.memory_bytes) return Filter::kMemory;
  if (gpu.exclusive != 0 || (wants_all && gpu.claims != 0)) return Filter::kShared;
  if (ask.memory_bytes > gpu.free_bytes()) return Filter::kMemory;
  if (ask.share_milli > gpu.free_milli()) return Filter::kShare;
  if (gpu.kept_for && *gpu.kept_for < claim.rank() &&
      (wants_all || ask.memory_bytes > gpu.guest_bytes || ask.share_milli > gpu.guest_milli))
    return Filter::kKept;
  return Filter::kNone;
}

std::string_view ToText(Filter filter) {
  constexpr std::array<std::string_view, kFilters> kNames = {
      "fits",  "host_not_ready", "host_closed", "other_host", "network", "refused_by_host",
      "model", "memory",         "share",       "shared",     "kept",    "too_few_on_host"};
  return kNames[static_cast<size_t>(filter)];
}

std::optional<Place> FindPlace(const Hosts& hosts, const Claim& claim) {
  const Ask& ask = claim.ask;
  // (GPUs not begun yet, what is left, emptiness of the host): the least wins; spread turns it
  // round.
  using Score = std::tuple<double, double, double>;
  std::optional<Place> best;
  Score best_score{};
  for (const auto& [name, host] : hosts) {
    if (JudgeHost(host, claim) != Filter::kNone) continue;
    std::vector<Candidate> fit;
    for (uint32_t i = 0; i < host.gpus.size(); ++i)
      if (JudgeGpu(host.gpus[i], claim) == Filter::kNone)
        fit.push_back({host.gpus[i].claims == 0, LeftOver(host.gpus[i], ask), i});
    if (fit.size() < ask.count) continue;
    std::sort(fit.begin(), fit.end(), [&](const Candidate& a, const Candidate& b) {
      if (ask.spread) return std::tuple(-a.left, a.device) < std::tuple(-b.left, b.device);
      return std::tuple(a.is_empty, a.left, a.device) < std::tuple(b.is_empty, b.left, b.device);
    });
    fit.resize(ask.count);
    double begun = 0, left = 0;
    for (const Candidate& candidate : fit) {
      begun += candidate.is_empty ? 1 : 0;
      left += candidate.left;
    }
    Score score =
        ask.spread ? Score(-Emptiness(host), -left, 0) : Score(begun, left, Emptiness(host));
    if (best && score >= best_score) continue;
    best_score = score;
    best = Place{name, {}};
    for (const Candidate& candidate : fit) best->devices.push_back(candidate.device);
    std::sort(best->devices.begin(), best->devices.end());
  }
  return best;
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
        pass.most_free_bytes = std::max(pass.most_free_bytes, gpu.free_bytes());
      if (by == Filter::kShare)
        pass.most_free_milli = std::max(pass.most_free_milli, gpu.free_milli());
      fit += by == Filter::kNone ? 1 : 0;
      ++pass.removed[static_cast<size_t>(by)];
      ever += HasModel(gpu, ask) && ask.memory_bytes <= gpu.memory_bytes ? 1 : 0;
    }
    bool is_possible = by_host != Filter::kOtherHost && by_host != Filter::kNetwork;
    if (is_possible && ever >= ask.count) pass.could_ever_fit = true;
    if (fit != 0 && fit < ask.count) {
      pass.removed[static_cast<size_t>(Filter::kNone)] -= fit;
      pass.removed[static_cast<size_t>(Filter::kTooFew)] += fit;
    }
  }
  return pass;
}

}  // namespace farcall::pool
