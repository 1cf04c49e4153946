// SPDX-License-Identifier: Apache-2.0
#include "quota/claim_ledger.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "settings/byte_rate.h"
#include "settings/oversubscribe.h"

namespace farcall::quota {

namespace {

constexpr size_t kMaxClaims = 4096;
constexpr size_t kMaxRemembered = 100'000;

uint64_t SlabOf(const ClaimGrant& grant) {
  return grant.memory_bytes * grant.devices.size();
}

}  // namespace

ClaimLedger::ClaimLedger(std::vector<uint64_t> device_bytes, ClaimBounds bounds)
    : device_bytes_(std::move(device_bytes)), bounds_(bounds) {}

void ClaimLedger::Beat(uint64_t beat, Ns now) {
  beat_ = beat;
  beat_at_ = now;
  answer_ = 0;
}

uint64_t ClaimLedger::memory_on(uint32_t device) const {
  uint64_t sum = 0;
  for (const auto& [name, held] : held_)
    for (uint32_t at : held.grant.devices)
      sum += at == device && !held.is_parked ? held.bytes() : 0;
  return sum;
}

uint64_t ClaimLedger::parked_bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, held] : held_)
    sum += held.is_parked || held.is_parking ? SlabOf(held.grant) : 0;
  return sum;
}

uint32_t ClaimLedger::share_on(uint32_t device) const {
  uint32_t sum = 0;
  for (const auto& [name, held] : held_)
    for (uint32_t at : held.grant.devices)
      sum += at == device && !held.is_parked ? held.milli() : 0;
  return sum;
}

Status ClaimLedger::CheckValues(const ClaimGrant& grant) const {
  if (grant.claim.empty() || grant.devices.empty() || grant.seats == 0)
    return {Code::kRefused, "a claim has a name, a device and a seat"};
  if (grant.share_milli > kWholeMilli || grant.limit_milli > kWholeMilli || grant.priority > 2)
    return {Code::kRefused, "share, limit or priority is none"};
  if (grant.net_bytes_per_s != 0 && grant.net_bytes_per_s < kLeastBytesPerSecond)
    return {Code::kRefused, "network: asked " + ByteRateText(grant.net_bytes_per_s) +
                                ", at least " + ByteRateText(kLeastBytesPerSecond) + " is needed"};
  if (bounds_.net_ceiling != 0 && grant.net_bytes_per_s > bounds_.net_ceiling)
    return {Code::kRefused, "network: asked " + ByteRateText(grant.net_bytes_per_s) + ", at most " +
                                ByteRateText(bounds_.net_ceiling) + " here"};
  return {};
}

Status ClaimLedger::CheckRoom(const ClaimGrant& grant, uint32_t device, const Held* but_not) const {
  auto refuse = [&](const std::string& why) {
    return Status(Code::kRefused, "device " + std::to_string(device) + ": asked " + why);
  };
  const uint64_t own = device_bytes_[device];
  const uint64_t all = own + LentBeyond(own, bounds_.oversubscribe_milli);
  uint64_t taken = memory_on(device);
  uint32_t share = share_on(device);
  if (but_not != nullptr) {
    taken -= but_not->bytes();
    share -= but_not->milli();
  }
  const uint64_t left = std::min(own, all - std::min(all, taken));  // a claim is of one device
  if (grant.memory_bytes == 0 || grant.memory_bytes > left)
    return refuse(std::to_string(grant.memory_bytes) + " bytes, " + std::to_string(left) +
                  " free of " + std::to_string(all));
  uint32_t milli = kWholeMilli - std::min(kWholeMilli, share);
  if (grant.share_milli > milli)
    return refuse(PercentText(grant.share_milli) + ", " + PercentText(milli) + " left");
  return {};
}

Status ClaimLedger::Judge(const ClaimGrant& grant) const {
  auto refuse = [](std::string why) { return Status(Code::kRefused, std::move(why)); };
  FARCALL_TRY(CheckValues(grant));
  if (held_.size() >= kMaxClaims)
    return refuse("this host holds " + std::to_string(kMaxClaims) + " claims already");
  auto newest = newest_.find(grant.claim);
  if (newest != newest_.end() && grant.epoch < newest->second)
    return refuse("epoch " + std::to_string(grant.epoch) + ": this host has seen " +
                  std::to_string(newest->second));
  std::set<uint32_t> seen;
  for (uint32_t device : grant.devices) {
    if (device >= device_bytes_.size() || !seen.insert(device).second)
      return refuse("device " + std::to_string(device) + ": this host has " +
                    std::to_string(device_bytes_.size()));
    FARCALL_TRY(CheckRoom(grant, device, nullptr));
  }
  return {};
}

void ClaimLedger::Propose(Held& held, const ClaimGrant& grant) {
  if (grant.quota_revision == held.grant.quota_revision ||
      grant.quota_revision == held.refused_revision || held.wanted)
    return;
  Status judged = CheckValues(grant);
  if (judged.ok() && (held.is_parked || held.is_parking)) judged = {Code::kRefused, "it is parked"};
  if (judged.ok() && grant.devices != held.grant.devices)
    judged = {Code::kRefused, "a claim keeps its devices in its epoch"};
  for (uint32_t device : held.grant.devices)
    if (judged.ok()) judged = CheckRoom(grant, device, &held);
  if (judged.ok()) {
    held.wanted = grant;
    changes_.push_back(grant.claim);
  } else {
    held.refused_revision = grant.quota_revision;
    held.change_refused = judged.message();
  }
}

std::vector<std::string> ClaimLedger::TakeChanges() {
  return std::exchange(changes_, {});
}

void ClaimLedger::FinishChange(const std::string& claim, uint64_t revision,
                               const std::string& refused) {
  auto found = held_.find(claim);
  if (found == held_.end() || !found->second.wanted ||
      found->second.wanted->quota_revision != revision)
    return;
  Held& held = found->second;
  if (refused.empty()) {
    held.grant = *held.wanted;
  } else {
    held.refused_revision = revision;
    held.change_refused = refused;
  }
  held.wanted.reset();
}

std::vector<ClaimLedger::Parking> ClaimLedger::TakeParkings() {
  return std::exchange(parkings_, {});
}

void ClaimLedger::FinishParking(const std::string& claim, const std::string& refused) {
  auto found = held_.find(claim);
  if (found == held_.end() || !found->second.is_parking) return;
  found->second.is_parking = false;
  found->second.is_parked = refused.empty();
  found->second.park_refused = refused;
}

void ClaimLedger::Park(Held& held, bool is_wanted) {
  const ClaimGrant& grant = held.grant;
  if (is_wanted) {
    if (held.is_parked) held.park_refused.clear();
    if (held.is_parked || held.is_parking || !held.park_refused.empty()) return;
    const uint64_t left = bounds_.park_bytes - std::min(bounds_.park_bytes, parked_bytes());
    if (bounds_.park_bytes == 0) {
      held.park_refused = "this host parks no claims";
    } else if (held.wanted) {
      held.park_refused = "it is being changed";
    } else if (SlabOf(grant) > left) {
      held.park_refused = "host memory: asked " + std::to_string(SlabOf(grant)) + " bytes, " +
                          std::to_string(left) + " left of " + std::to_string(bounds_.park_bytes);
    } else {
      held.is_parking = true;
      parkings_.push_back({grant.claim, true});
    }
    return;
  }
  held.park_refused.clear();
  if (!held.is_parked && !held.is_parking) return;
  if (held.is_parked) {
    for (uint32_t device : grant.devices) {
      if (Status room = CheckRoom(grant, device, nullptr); !room.ok()) {
        held.park_refused = room.message();
        return;
      }
    }
  }
  held.is_parked = held.is_parking = false;
  parkings_.push_back({grant.claim, false});
}

Result<std::vector<std::string>> ClaimLedger::Answer(uint64_t beat, uint64_t number, uint64_t term,
                                                     const std::vector<ClaimGrant>& grants,
                                                     Ns now) {
  if (term < term_)
    return Status(Code::kRefused, "a controller of term " + std::to_string(term) +
                                      " answered; this host has heard " + std::to_string(term_));
  if (beat_ == 0 || beat != beat_ || number <= answer_)
    return Status(Code::kInvalid, "an answer to heartbeat " + std::to_string(beat) +
                                      " came when it no longer counts");
  term_ = term;
  answer_ = number;
  refused_.clear();
  std::set<std::string> granted;
  for (const ClaimGrant& grant : grants) granted.insert(grant.claim);
  std::vector<std::string> ends;
  // First what goes, so that it makes room.
  for (auto at = held_.begin(); at != held_.end();) {
    auto held = at++;
    if (granted.count(held->first) != 0 || held->second.is_ending) continue;
    std::string name = held->first;
    if (End(held)) ends.push_back(name);
  }
  for (const ClaimGrant& grant : grants) {
    Ns until = grant.hold_ns > std::numeric_limits<Ns>::max() - beat_at_
                   ? std::numeric_limits<Ns>::max()
                   : beat_at_ + std::max<Ns>(grant.hold_ns, 0);
    auto held = held_.find(grant.claim);
    if (held != held_.end()) {
      if (held->second.grant.epoch == grant.epoch && !held->second.is_ending) {
        held->second.until = until;
        Propose(held->second, grant);
        Park(held->second, grant.is_parked);
      } else if (!held->second.is_ending) {
        std::string name = held->first;  // moved away and back unseen: the old one ends first
        if (End(held)) ends.push_back(name);
      }
      continue;
    }
    Status judged =
        grant.is_parked ? Status(Code::kRefused, "it has nothing here to be parked") : Judge(grant);
    if (!judged.ok()) {
      refused_[grant.claim] = {grant.epoch, judged.message()};
      continue;
    }
    Held& accepted = held_[grant.claim];
    accepted.grant = grant;
    accepted.until = until;
    if (newest_.size() >= kMaxRemembered) newest_.clear();
    newest_[grant.claim] = grant.epoch;
  }
  for (std::string& late : Expire(now)) ends.push_back(std::move(late));
  return ends;
}

// True: sessions of it are still there.
bool ClaimLedger::End(std::map<std::string, Held>::iterator held) {
  if (held->second.sessions == 0) {
    held_.erase(held);
    return false;
  }
  held->second.is_ending = true;
  return true;
}

std::vector<std::string> ClaimLedger::Expire(Ns now) {
  std::vector<std::string> ends;
  for (auto at = held_.begin(); at != held_.end();) {
    auto held = at++;
    if (held->second.is_ending || now < held->second.until) continue;
    std::string name = held->first;
    if (End(held)) ends.push_back(name);
  }
  return ends;
}

Ns ClaimLedger::ExpiresAt() const {
  Ns at = std::numeric_limits<Ns>::max();
  for (const auto& [name, held] : held_)
    if (!held.is_ending) at = std::min(at, held.until);
  return at;
}

Status ClaimLedger::OpenSeat(const std::string& claim, uint64_t epoch, Ns now) {
  auto refuse = [&](const std::string& why) {
    return Status(Code::kRefused, "claim " + claim + ": " + why);
  };
  auto found = held_.find(claim);
  if (found == held_.end()) return refuse("this host does not hold it; ask the pool again");
  Held& held = found->second;
  if (held.grant.epoch != epoch)
    return refuse("the lease is of epoch " + std::to_string(epoch) + ", the claim's is " +
                  std::to_string(held.grant.epoch) + "; ask the pool again");
  if (held.is_ending || now >= held.until) return refuse("it is ending here");
  if (held.is_parked || held.is_parking) return refuse("it is parked; wait until it has its place");
  if (held.sessions >= held.grant.seats)
    return refuse("all its " + std::to_string(held.grant.seats) + " seat(s) are taken");
  ++held.sessions;
  return {};
}

void ClaimLedger::CloseSeat(const std::string& claim) {
  auto found = held_.find(claim);
  if (found == held_.end() || found->second.sessions == 0) return;
  if (--found->second.sessions == 0 && found->second.is_ending) held_.erase(found);
}

}  // namespace farcall::quota
