// SPDX-License-Identifier: Apache-2.0
// Aging: what does not fit holds nobody up, so a large claim could wait behind small ones for ever.
// After some time a place is kept for it: whoever comes later may go there only beside it.
#include <algorithm>
#include <tuple>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxKept = 64;

// What has to go from the GPU before the claim fits; 0: nothing, 2: all of both.
double Missing(const Gpu& gpu, const Ask& ask) {
  if (gpu.memory_bytes == 0) return 2;
  uint64_t bytes = ask.memory_bytes == 0 ? gpu.memory_bytes : ask.memory_bytes;
  double memory = static_cast<double>(bytes - std::min(bytes, gpu.free_bytes())) /
                  static_cast<double>(gpu.memory_bytes);
  uint32_t milli = ask.share_milli - std::min(ask.share_milli, gpu.free_milli());
  return memory + static_cast<double>(milli) / kWholeMilli;
}

bool CouldTake(const Gpu& gpu, const Ask& ask) {
  return (ask.model.empty() || gpu.name.find(ask.model) != std::string::npos) &&
         MatchesGpu(ask.selector, gpu.name) && ask.memory_bytes <= gpu.memory_bytes;
}

bool IsOpen(const Host& host) {
  return host.state == HostState::kReady && !host.is_closed();
}

}  // namespace

bool Core::IsStillGood(const std::string& owner, const Kept& kept) const {
  auto claim = claims_.find(owner);
  auto host = hosts_.find(kept.host);
  if (claim == claims_.end() || claim->second.state != ClaimState::kPending ||
      host == hosts_.end() || !IsOpen(host->second) || claim->second.avoid.count(kept.host) != 0 ||
      kept.devices.size() != claim->second.ask.count ||
      !AllowsNet(host->second, claim->second.ask) ||
      !MatchesHost(claim->second.ask.selector, kept.host, host->second.labels))
    return false;
  const Ask& ask = claim->second.ask;
  return (ask.host.empty() || ask.host == kept.host) &&
         std::all_of(kept.devices.begin(), kept.devices.end(), [&](uint32_t device) {
           return device < host->second.gpus.size() && CouldTake(host->second.gpus[device], ask);
         });
}

void Core::DropKept(const std::string& owner, bool is_placed) {
  if (kept_.count(owner) == 0) return;
  Spare(owner);
  auto host = hosts_.find(kept_.at(owner).host);
  kept_.erase(owner);
  // For those who were kept out.
  if (!is_placed) CapacityCame(host == hosts_.end() ? nullptr : &host->second);
  MarkKept();
}

// The oldest first; each on GPUs that no other has, where the least has to go.
void Core::KeepPlaces() {
  if (timing_.aging == kNever) return;
  std::vector<std::string> over;
  for (const auto& [owner, kept] : kept_)
    if (!IsStillGood(owner, kept)) over.push_back(owner);
  for (const std::string& owner : over) DropKept(owner, false);
  if (kept_.size() >= kMaxKept || pending_count_ == 0) return;
  std::vector<const Claim*> aged;
  for (const Waiting& waiting : InOrder(kMaxKept))
    if (waiting.limit.empty() && now_ - waiting.claim->since >= timing_.aging &&
        kept_.count(waiting.claim->id) == 0)
      aged.push_back(waiting.claim);
  for (const Claim* claim : aged) {
    if (kept_.size() >= kMaxKept) break;
    using Score = std::tuple<double, std::string>;
    Score best(kNever, "");
    Kept kept;
    for (const auto& [name, host] : hosts_) {
      if (!IsOpen(host) || !AllowsNet(host, claim->ask) || claim->avoid.count(name) != 0 ||
          !(claim->ask.host.empty() || claim->ask.host == name) ||
          !MatchesHost(claim->ask.selector, name, host.labels))
        continue;
      std::vector<std::pair<double, uint32_t>> fit;
      for (uint32_t i = 0; i < host.gpus.size(); ++i)
        if (!host.gpus[i].kept_for && CouldTake(host.gpus[i], claim->ask))
          fit.emplace_back(Missing(host.gpus[i], claim->ask), i);
      if (fit.size() < claim->ask.count) continue;
      std::sort(fit.begin(), fit.end());
      double missing = 0;
      std::vector<uint32_t> devices;
      for (uint32_t i = 0; i < claim->ask.count; ++i) {
        missing += fit[i].first;
        devices.push_back(fit[i].second);
      }
      if (Score score(missing, name); score < best) {
        best = score;
        kept = {name, devices, now_, {}};
      }
    }
    if (kept.devices.empty()) continue;
    kept_[claim->id] = kept;
    Say("claim_place_kept", claim->id, kept.host, "");
    MarkKept();
    CapacityCame(&hosts_.at(kept.host));  // what fits there is judged anew
  }
}

void Core::MarkKept() {
  for (auto& [name, host] : hosts_)
    for (Gpu& gpu : host.gpus) gpu.kept_for.reset();
  for (auto& [owner, kept] : kept_) {
    auto host = hosts_.find(kept.host);
    if (host == hosts_.end()) continue;
    const Claim& claim = claims_.at(owner);
    std::erase_if(kept.guests, [&](const std::string& id) {
      return host->second.claims.count(id) == 0;  // it has ended
    });
    for (uint32_t device : kept.devices) {
      if (device >= host->second.gpus.size()) continue;
      Gpu& gpu = host->second.gpus[device];
      uint64_t bytes = claim.ask.memory_bytes == 0 ? gpu.memory_bytes : claim.ask.memory_bytes;
      uint32_t milli = claim.ask.share_milli;
      for (const std::string& id : kept.guests) {
        const Claim& guest = claims_.at(id);
        if (std::count(guest.devices.begin(), guest.devices.end(), device) == 0) continue;
        bytes += guest.held_bytes();
        milli += guest.held_milli();
      }
      gpu.kept_for = claim.rank();
      gpu.is_kept_strictly = sequencer_->is_by_project();
      gpu.guest_bytes = gpu.memory_bytes - std::min(gpu.memory_bytes, bytes);
      gpu.guest_milli = kWholeMilli - std::min(kWholeMilli, milli);
    }
  }
}

}  // namespace farcall::pool
