// SPDX-License-Identifier: Apache-2.0
// Aging: what does not fit holds nobody up, so a large claim could wait behind small ones for ever.
// After some time a place is kept for it: whoever comes later may go there only beside it.
#include <algorithm>
#include <tuple>
#include <utility>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxKept = 64;

// What has to go from the GPU before the claim fits; 0: nothing, 2: all of both.
double Missing(const Gpu& gpu, const Ask& ask) {
  if (gpu.memory_bytes == 0) return 2;
  uint64_t bytes = ask.memory_bytes == 0 ? gpu.lendable_bytes() : ask.memory_bytes;
  double memory = static_cast<double>(bytes - std::min(bytes, gpu.free_bytes())) /
                  static_cast<double>(gpu.lendable_bytes());
  uint32_t milli = ShareOn(gpu, ask) - std::min(ShareOn(gpu, ask), gpu.free_milli());
  return memory + static_cast<double>(milli) / kWholeMilli;
}

bool CouldTake(const Gpu& gpu, const Ask& ask) {
  return (ask.model.empty() || gpu.name.find(ask.model) != std::string::npos) &&
         MatchesGpu(ask.selector, gpu.name) && ask.memory_bytes <= gpu.memory_bytes &&
         ShareOn(gpu, ask) <= kWholeMilli;
}

bool MayKeepOn(const Host& host, const Claim& claim) {
  return claim.ask.group == host.group && host.state == HostState::kReady && !host.is_closed() &&
         AllowsNet(host, claim.ask) && claim.avoid.count(host.name) == 0 &&
         !MixesTflops(host, claim.ask) && (claim.ask.host.empty() || claim.ask.host == host.name) &&
         MatchesHost(claim.ask.selector, host.name, host.labels);
}

}  // namespace

bool Core::Kept::IsOn(const std::string& host) const {
  return std::any_of(places.begin(), places.end(),
                     [&](const Place& place) { return place.host == host; });
}

bool Core::IsStillGood(const std::string& owner, const Kept& kept) const {
  auto claim = claims_.find(owner);
  return claim != claims_.end() && WaitsAsWhole(claim->second) &&
         kept.places.size() == claim->second.members() &&
         std::all_of(kept.places.begin(), kept.places.end(),
                     [&](const Place& place) { return IsStillGood(claim->second, place); });
}

bool Core::IsStillGood(const Claim& claim, const Place& place) const {
  const Ask& ask = claim.ask;
  auto host = hosts_.find(place.host);
  if (claim.state == ClaimState::kParked)
    return host != hosts_.end() && host->second.state == HostState::kReady;
  if (host == hosts_.end() || !MayKeepOn(host->second, claim) || place.devices.size() != ask.count)
    return false;
  return std::all_of(place.devices.begin(), place.devices.end(), [&](uint32_t device) {
    return device < host->second.gpus.size() && CouldTake(host->second.gpus[device], ask) &&
           !IsReserved(host->second.gpus[device], claim);
  });
}

void Core::DropKept(const std::string& owner, bool is_placed) {
  if (kept_.count(owner) == 0) return;
  Spare(owner);
  const GangPlaces places = kept_.at(owner).places;
  kept_.erase(owner);
  if (auto claim = claims_.find(owner);
      !is_placed && claim != claims_.end() && claim->second.state == ClaimState::kPending)
    Choose(claim->second, 0);
  // For those who were kept out.
  if (!is_placed)
    for (const Place& place : places) {
      auto host = hosts_.find(place.host);
      CapacityCame(host == hosts_.end() ? nullptr : &host->second);
    }
  MarkKept();
}

// The oldest first; each on GPUs that no other has, where the least has to go.
void Core::KeepPlaces() {
  if (timing_.aging == kNever) return;
  std::vector<std::string> over;
  for (const auto& [owner, kept] : kept_)
    if (!IsStillGood(owner, kept)) over.push_back(owner);
  for (const std::string& owner : over) DropKept(owner, false);
  if (pending_count_ == 0) return;
  for (const auto& [name, group] : groups_) KeepPlacesOf(group);
}

void Core::KeepPlacesOf(const GroupState& group) {
  size_t kept = static_cast<size_t>(std::count_if(kept_.begin(), kept_.end(), [&](const auto& one) {
    return &GroupOf(claims_.at(one.first).ask) == &group;
  }));
  if (kept >= kMaxKept) return;
  std::vector<const Claim*> aged;
  for (const Waiting& waiting : InOrder(group, kMaxKept))
    if (waiting.limit.empty() && now_ - waiting.claim->since >= timing_.aging &&
        kept_.count(waiting.claim->id) == 0)
      aged.push_back(waiting.claim);
  for (const Claim* claim : aged) {
    if (kept >= kMaxKept) break;
    std::optional<GangPlaces> places;
    const auto [first, last] = ChoicesOf(*claim);
    for (uint32_t choice = first; choice < last && !places; ++choice) {
      Choose(*claim, choice);
      places = PlacesToKeep(*claim);
    }
    if (!places) {
      Choose(*claim, first);
      continue;
    }
    ++kept;
    kept_[claim->id] = {*places, now_, {}};
    for (const Place& place : *places) Say("claim_place_kept", claim->id, place.host, "");
    MarkKept();
    for (const Place& place : *places) CapacityCame(&hosts_.at(place.host));  // judged anew
  }
}

// Each member's part of a host is as many GPUs as it asks for, those first where the least has to
// go; of all hosts' parts the members get those where the least has to go in all.
std::optional<GangPlaces> Core::PlacesToKeep(const Claim& claim) const {
  if (claim.state == ClaimState::kParked) {  // none but its own
    GangPlaces own;
    for (const Claim* one : MembersOf(claim)) {
      const Host& host = hosts_.at(one->host);
      for (uint32_t device : one->devices)
        if (host.state != HostState::kReady || device >= host.gpus.size() ||
            host.gpus[device].kept_for)
          return std::nullopt;
      own.push_back({one->host, one->devices});
    }
    return own;
  }
  using Part = std::tuple<double, std::string, std::vector<uint32_t>>;
  std::vector<Part> parts;
  const size_t count = std::max(claim.ask.count, 1u);
  for (const auto& [name, host] : hosts_) {
    if (!MayKeepOn(host, claim)) continue;
    std::vector<std::pair<double, uint32_t>> fit;
    for (uint32_t i = 0; i < host.gpus.size(); ++i)
      if (!host.gpus[i].kept_for && CouldTake(host.gpus[i], claim.ask) &&
          !IsReserved(host.gpus[i], claim))
        fit.emplace_back(Missing(host.gpus[i], claim.ask), i);
    std::sort(fit.begin(), fit.end());
    for (size_t first = 0; first + count <= fit.size() && first / count < claim.members();
         first += count) {
      double missing = 0;
      std::vector<uint32_t> devices;
      for (size_t i = first; i < first + count; ++i) {
        missing += fit[i].first;
        devices.push_back(fit[i].second);
      }
      parts.emplace_back(missing, name, std::move(devices));
    }
  }
  if (parts.size() < claim.members()) return std::nullopt;
  std::partial_sort(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(claim.members()),
                    parts.end());
  GangPlaces places;
  for (uint32_t i = 0; i < claim.members(); ++i)
    places.push_back({std::get<1>(parts[i]), std::get<2>(parts[i])});
  return places;
}

void Core::MarkKept() {
  for (Host* host : std::exchange(marked_, {}))
    for (Gpu& gpu : host->gpus) gpu.kept_for.reset();
  for (auto& [owner, kept] : kept_) {
    std::erase_if(kept.guests, [&](const std::string& id) {
      auto guest = claims_.find(id);  // it has ended
      return guest == claims_.end() || !HoldsGpus(guest->second);
    });
    for (const Place& place : kept.places) MarkKeptOn(claims_.at(owner), kept, place);
  }
}

void Core::MarkKeptOn(const Claim& owner, const Kept& kept, const Place& place) {
  auto host = hosts_.find(place.host);
  if (host == hosts_.end()) return;
  marked_.push_back(&host->second);
  for (uint32_t device : place.devices) {
    if (device >= host->second.gpus.size()) continue;
    Gpu& gpu = host->second.gpus[device];
    uint64_t bytes = owner.ask.memory_bytes == 0 ? gpu.lendable_bytes() : owner.ask.memory_bytes;
    uint32_t milli = NeededShare(gpu, owner);
    for (const std::string& id : kept.guests) {
      const Claim& guest = claims_.at(id);
      if (guest.host != place.host ||
          std::count(guest.devices.begin(), guest.devices.end(), device) == 0)
        continue;
      bytes += guest.held_bytes();
      milli += guest.held_milli();
    }
    gpu.kept_for = owner.rank();
    gpu.is_kept_strictly = SequencerOf(GroupOf(owner.ask)).is_by_project();
    gpu.guest_bytes = gpu.lendable_bytes() - std::min(gpu.lendable_bytes(), bytes);
    gpu.guest_milli = kWholeMilli - std::min(kWholeMilli, milli);
  }
}

}  // namespace farcall::pool
