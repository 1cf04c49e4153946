// SPDX-License-Identifier: Apache-2.0
// The queue: first come, first served, but what cannot be placed now holds nobody up.
#include <algorithm>
#include <cstdio>

#include "pool/core/core.h"
#include "proto/byte_rate.h"

namespace farcall::pool {

namespace {

std::string BytesText(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string MilliText(uint32_t milli) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g %%", milli / 10.0);
  return text;
}

std::string AskText(const Ask& ask) {
  std::string text = ask.memory_bytes == 0 ? "a whole GPU" : BytesText(ask.memory_bytes);
  if (ask.share_milli != 0) text += " and " + MilliText(ask.share_milli);
  if (ask.net_bytes_per_s != 0) text += " and " + ByteRateText(ask.net_bytes_per_s);
  if (ask.count != 1) text += ", " + std::to_string(ask.count) + " times on one host";
  return text;
}

std::string Why(const Claim& claim, const Pass& pass, uint32_t place) {
  auto removed = [&](Filter filter) { return pass.removed[static_cast<size_t>(filter)]; };
  std::string why = "asks " + AskText(claim.ask);
  if (pass.gpus == 0) return why + ": no host has joined the pool";
  why += ": of " + std::to_string(pass.gpus) + " GPU(s)";
  auto add = [&](Filter filter, const std::string& what) {
    if (removed(filter) != 0) why += ", " + std::to_string(removed(filter)) + " " + what;
  };
  add(Filter::kNone, "would fit");
  add(Filter::kNotReady, "on silent hosts");
  add(Filter::kClosed, "on hosts that are closed");
  add(Filter::kOtherHost, "on other hosts than asked for");
  add(Filter::kNetwork, "on hosts that allow less of the network");
  add(Filter::kRefused, "refused by the host's ledger");
  add(Filter::kModel, "of another model");
  add(Filter::kMemory, "without the memory (at most " + BytesText(pass.most_free_bytes) + " free)");
  add(Filter::kShare, "without the share (at most " + MilliText(pass.most_free_milli) + " free)");
  add(Filter::kShared, "not free for sharing");
  add(Filter::kKept, "kept for claims before it in the queue");
  add(Filter::kTooFew, "on hosts with too few of them");
  if (!pass.could_ever_fit) why += "; none could ever take it";
  if (place != 0) why += "; place " + std::to_string(place) + " in the queue";
  return why;
}

}  // namespace

std::string Core::ShapeOf(const Claim& claim) {
  const Ask& ask = claim.ask;
  std::string shape = std::to_string(ask.count) + ' ' + std::to_string(ask.memory_bytes) + ' ' +
                      std::to_string(ask.share_milli) + ' ' + std::to_string(ask.net_bytes_per_s) +
                      (ask.spread ? " s " : " p ") + std::to_string(ask.model.size()) + ' ' +
                      ask.model + ask.host;
  if (!claim.avoid.empty()) shape += '\n' + claim.id;
  return shape;
}

void Core::Enqueue(const Claim& claim) {
  std::string shape = ShapeOf(claim);
  shapes_[shape].queue[claim.rank()] = claim.id;
  new_shapes_.insert(std::move(shape));
  ++pending_count_;
  CountWaiting(claim, true);
}

void Core::Dequeue(const Claim& claim) {
  auto shape = shapes_.find(ShapeOf(claim));
  if (shape == shapes_.end() || shape->second.queue.erase(claim.rank()) == 0) return;
  --pending_count_;
  CountWaiting(claim, false);
  if (!shape->second.queue.empty()) return;
  new_shapes_.erase(shape->first);
  shapes_.erase(shape);
}

// What a host refused it may take later: others have gone meanwhile.
void Core::ForgetRefusals() {
  for (auto at = avoiding_.begin(); at != avoiding_.end();) {
    auto claim = claims_.find(at->first);
    if (claim != claims_.end() && now_ < at->second) {
      ++at;
      continue;
    }
    if (claim != claims_.end()) {
      bool is_queued = claim->second.state == ClaimState::kPending;
      if (is_queued) Dequeue(claim->second);
      claim->second.avoid.clear();
      if (is_queued) Enqueue(claim->second);
    }
    at = avoiding_.erase(at);
  }
}

void Core::Schedule() {
  if (scheduled_version_ == capacity_version_ && new_shapes_.empty()) return;
  bool all = scheduled_version_ != capacity_version_;
  if (!kept_.empty()) MarkKept();
  scheduled_version_ = capacity_version_;
  std::set<std::pair<Rank, std::string>> heads;
  auto add = [&](const std::string& name) {
    auto shape = shapes_.find(name);
    if (shape == shapes_.end()) return;
    const Rank head = shape->second.queue.begin()->first;
    if (shape->second.failed_at != capacity_version_ || head < shape->second.failed)
      heads.emplace(head, name);
  };
  if (all)
    for (const auto& [name, shape] : shapes_) add(name);
  else
    for (const std::string& name : new_shapes_) add(name);
  new_shapes_.clear();
  while (!heads.empty()) {
    std::string name = heads.begin()->second;
    heads.erase(heads.begin());
    Shape& shape = shapes_.at(name);
    Claim& claim = claims_.at(shape.queue.begin()->second);
    if (TryPlace(claim)) {
      add(name);
      continue;
    }
    shape.failed_at = capacity_version_;
    shape.failed = claim.rank();
    Preempt(claim);
  }
}

bool Core::TryPlace(Claim& claim) {
  std::optional<Place> place = FindPlace(hosts_, claim);
  if (!place) return false;
  const Host& host = hosts_.at(place->host);
  claim.host = place->host;
  claim.devices = place->devices;
  claim.memory_bytes = BytesOf(claim.ask, host, claim.devices);
  ++claim.epoch;
  claim.was_granted = false;
  claim.granted_until = 0;
  Move(claim, ClaimState::kReserved);
  for (auto& [owner, kept] : kept_)
    if (kept.host == claim.host) kept.guests.insert(claim.id);
  if (!kept_.empty()) MarkKept();
  beats_.insert(claim.host);
  return true;
}

Explanation Core::Explain(const Claim& claim) const {
  Explanation told;
  told.state = claim.state;
  if (claim.state == ClaimState::kPreempting) {
    const Ms left = std::max<Ms>(0, claim.since + timing_.preempt_grace - now_);
    told.why = "on " + claim.host + ", which it leaves in " + std::to_string((left + 999) / 1000) +
               " s for claim " + claim.preempted_by + ", whose queue priority is higher; it is " +
               "queued again then";
    return told;
  }
  if (claim.state != ClaimState::kPending) {
    told.why = claim.host.empty()
                   ? claim.reason
                   : "on " + claim.host + (claim.reason.empty() ? "" : ": " + claim.reason);
    return told;
  }
  told.pass = Examine(hosts_, claim);
  told.place_in_queue = 1;
  for (const auto& [name, shape] : shapes_)
    told.place_in_queue += static_cast<uint32_t>(
        std::distance(shape.queue.begin(), shape.queue.lower_bound(claim.rank())));
  told.why = Why(claim, told.pass, told.place_in_queue);
  if (auto kept = kept_.find(claim.id); kept != kept_.end()) {
    told.why += "; a place on " + kept->second.host + " is kept for it";
    if (const size_t leaving = LeavingFor(claim.id).size(); leaving != 0)
      told.why += ", which " + std::to_string(leaving) +
                  " claim(s) of a lower priority leave within " +
                  std::to_string((timing_.preempt_grace + 999) / 1000) + " s of the warning";
  }
  return told;
}

Explanation Core::Plan(const Ask& ask, std::optional<Place>* place) const {
  Claim claim;
  claim.ask = ask;
  claim.order = UINT64_MAX;  // it would be the last to come, of its queue priority
  Explanation told;
  told.pass = Examine(hosts_, claim);
  *place = FindPlace(hosts_, claim);
  told.why = Why(claim, told.pass, 0);
  return told;
}

// Sums are made anew from the claims, so that what is counted as it goes along can be checked.
std::string Core::Broken() const {
  std::map<std::string, std::vector<Gpu>> sums;
  std::map<std::string, std::set<std::string>> held;
  size_t pending = 0;
  for (const auto& [id, claim] : claims_) {
    if (claim.id != id) return "claim " + id + " is filed under another name";
    if (claim.state == ClaimState::kPending) {
      ++pending;
      auto shape = shapes_.find(ShapeOf(claim));
      if (shape == shapes_.end() || shape->second.queue.count(claim.rank()) == 0)
        return "claim " + id + " is pending and in no queue";
    }
    if (HoldsCapacity(claim.state) != !claim.host.empty())
      return "claim " + id + " is " + std::string(ToText(claim.state)) + " with host '" +
             claim.host + "'";
    if (!HoldsCapacity(claim.state)) continue;
    held[claim.host].insert(id);
    auto host = hosts_.find(claim.host);
    if (host == hosts_.end()) return "claim " + id + " is on an unknown host";
    std::vector<Gpu>& gpus = sums[claim.host];
    gpus.resize(host->second.gpus.size());
    for (uint32_t device : claim.devices) {
      if (device >= gpus.size()) continue;
      gpus[device].used_bytes += claim.held_bytes();
      gpus[device].used_milli += claim.held_milli();
      ++gpus[device].claims;
    }
  }
  for (const auto& [owner, kept] : kept_)
    if (Find(owner) == nullptr || Find(owner)->state != ClaimState::kPending)
      return "a place is kept for claim " + owner + ", which does not wait";
  for (const auto& [id, claim] : claims_) {
    if (claim.state != ClaimState::kPreempting) continue;
    auto kept = kept_.find(claim.preempted_by);
    if (kept == kept_.end() || kept->second.host != claim.host)
      return "claim " + id + " leaves for nobody who waits for its place";
    if (!claim.ask.preemptible ||
        claim.ask.queue_priority >= claims_.at(claim.preempted_by).ask.queue_priority)
      return "claim " + id + " leaves for " + claim.preempted_by + ", and need not";
  }
  std::map<std::string, uint32_t> of_tenants;
  for (const auto& [id, claim] : claims_)
    if (!IsOver(claim.state)) ++of_tenants[claim.tenant];
  for (const auto& [tenant, use] : tenants_)
    if (use.claims != of_tenants[tenant]) return "tenant '" + tenant + "': its claims are others";
  if (pending != pending_count_) return "the queue holds another number of claims";
  if (std::string wrong = BrokenProject(); !wrong.empty()) return wrong;
  for (const auto& [name, host] : hosts_) {
    if (host.claims != held[name]) return "host " + name + " lists other claims";
    sums[name].resize(host.gpus.size());
    for (size_t i = 0; i < host.gpus.size(); ++i) {
      const Gpu &sum = sums[name][i], &gpu = host.gpus[i];
      if (sum.used_bytes != gpu.used_bytes || sum.used_milli != gpu.used_milli ||
          sum.claims != gpu.claims)
        return "host " + name + " GPU " + std::to_string(i) + ": its counts are not its claims'";
    }
  }
  return "";
}

}  // namespace farcall::pool
