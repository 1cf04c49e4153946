// SPDX-License-Identifier: Apache-2.0
// The queue: first come, first served, but what cannot be placed now holds nobody up.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "pool/core/core.h"

namespace farcall::pool {

std::string Core::ShapeOf(const Claim& claim) const {
  if (claim.state == ClaimState::kParked) return std::string("\r").append(claim.id);
  const Ask& ask = claim.ask;
  auto text = [](uint32_t count, uint64_t memory_bytes, uint32_t share_milli) {
    return std::to_string(count) + ' ' + std::to_string(memory_bytes) + ' ' +
           std::to_string(share_milli) + ' ';
  };
  std::string shape;
  // Whichever of its alternatives it has the numbers of.
  for (const Size& size : ask.sizes) {
    shape += text(size.count, size.memory_bytes, size.share_milli) +
             std::to_string(size.model.size()) + ' ' + size.model;
    if (size.gflops != 0) shape += '\x02' + std::to_string(size.gflops);
    shape += '\b';
  }
  if (ask.sizes.empty()) shape = text(ask.count, ask.memory_bytes, ask.share_milli);
  const std::string model = ask.sizes.empty() ? ask.model : "";
  shape += std::to_string(ask.net_bytes_per_s) + "psfnt"[static_cast<size_t>(ask.placer)] +
           std::to_string(model.size()) + ' ' + model + ask.host;
  if (ask.sizes.empty() && ask.gflops != 0) shape += '\x02' + std::to_string(ask.gflops);
  if (!ask.group.empty()) shape += '\x01' + ask.group;
  if (!claim.gang.empty()) shape += '\a' + std::to_string(claim.gang_size);
  if (!ask.selector.is_empty()) shape += '\v' + ToText(ask.selector);
  if (!claim.avoid.empty()) shape += '\n' + claim.id;
  if (!reservations_.empty()) shape += ReservedShapeOf(claim);
  if (HasOwnFilters(claim)) shape += '\t' + ask.project;
  return shape;
}

// Whether its projects' limits rule out GPUs that others may have.
bool Core::HasOwnFilters(const Claim& claim) const {
  const Ask& ask = claim.ask;
  const bool has_tflops = ask.sizes.empty()
                              ? ask.gflops != 0
                              : std::any_of(ask.sizes.begin(), ask.sizes.end(),
                                            [](const Size& size) { return size.gflops != 0; });
  for (const ProjectState* at = &projects_.at(ask.project); at != nullptr; at = at->parent)
    if (!at->project.models.empty() || (has_tflops && LimitsOf(at->project).share_milli))
      return true;
  return false;
}

void Core::Enqueue(const Claim& one) {
  if (!WaitsAsWhole(one)) return;
  const Claim& claim = LeaderOf(one);
  if (claim.is_early) return;
  claims_.at(claim.id).share_caps.clear();  // its project may have other limits by now
  std::string name = ShapeOf(claim);
  LineKey key(claim.ask.project, claim.tenant);
  Shape& shape = shapes_[name];
  shape.is_particular = HasOwnFilters(claim);
  ++pending_count_;
  Line& line = shape.lines[key];
  line.shape = &shape;
  line.project = &projects_.at(claim.ask.project);
  line.tenant = &line.project->tenants.at(claim.tenant);
  line.group = &GroupOf(claim.ask);
  line.claims[claim.rank()] = claim.id;
  shape.ranks[claim.rank()] = &line;
  line.is_new = true;
  new_lines_.emplace(std::move(name), std::move(key));
}

void Core::Dequeue(const Claim& one) {
  const Claim& claim = LeaderOf(one);
  auto shape = shapes_.find(ShapeOf(claim));
  if (shape == shapes_.end() || shape->second.ranks.erase(claim.rank()) == 0) return;
  const LineKey key(claim.ask.project, claim.tenant);
  auto line = shape->second.lines.find(key);
  line->second.claims.erase(claim.rank());
  if (line->second.claims.empty()) {
    if (line->second.is_new) new_lines_.erase({shape->first, key});
    shape->second.lines.erase(line);
  }
  --pending_count_;
  if (shape->second.ranks.empty()) shapes_.erase(shape);
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
      Dequeue(claim->second);
      claim->second.avoid.clear();
      if (WaitsForPlace(claim->second.state)) Enqueue(claim->second);
    }
    at = avoiding_.erase(at);
  }
}

void Core::CapacityCame(const Host* host) {
  constexpr size_t kMax = 1024;
  ++capacity_version_;
  if (host != nullptr && freed_.size() < kMax) {
    freed_.emplace_back(capacity_version_, host);
    return;
  }
  all_freed_at_ = capacity_version_;
  freed_.clear();
}

std::optional<std::vector<const Host*>> Core::FreedSince(uint64_t version) const {
  if (version < all_freed_at_) return std::nullopt;
  std::vector<const Host*> hosts;
  for (auto at = freed_.rbegin(); at != freed_.rend() && at->first > version; ++at)
    if (std::find(hosts.begin(), hosts.end(), at->second) == hosts.end())
      hosts.push_back(at->second);
  std::sort(hosts.begin(), hosts.end(),
            [](const Host* a, const Host* b) { return a->name < b->name; });
  return hosts;
}

// Whether the shape has failed for a claim of that rank.
bool Core::IsBehind(const Shape& shape, const Rank& rank) {
  return shape.failed_at != 0 && !shape.is_particular && !(rank < shape.failed);
}

std::optional<GangPlaces> Core::Look(const std::vector<const Host*>* freed,
                                     const Claim& claim) const {
  if (claim.state == ClaimState::kParked) return OwnPlaces(claim);
  const PlacerInputs inputs = InputsOf(claim.ask);
  // A gang may need the others as well; but without room for a member more, it has none.
  if (freed != nullptr && claim.members() != 1 && FindPlace(*freed, claim)) freed = nullptr;
  return freed != nullptr ? FindPlaces(*freed, claim, inputs) : FindPlaces(hosts_, claim, inputs);
}

void Core::NoteFailure(Shape& shape, const Rank& rank, bool is_of_all_hosts) {
  shape.failed_at = capacity_version_;
  // Ranks differ only where a place is kept for somebody.
  if (!kept_.empty())
    shape.failed = rank;
  else if (is_of_all_hosts)
    shape.failed = kFirstRank;
}

// Whoever is parked has its place already.
std::pair<uint32_t, uint32_t> Core::ChoicesOf(const Claim& claim) {
  if (claim.state == ClaimState::kParked) return {claim.ask.choice, claim.ask.choice + 1};
  return {0, claim.ask.choices()};
}

// But for members of a gang that still hold what they chose before, and are counted by it.
void Core::Choose(const Claim& claim, uint32_t choice) {
  if (claim.ask.choice == choice && claim.gang.empty()) return;
  for (Claim* member : MembersOf(claim))
    if (member->ask.choice != choice && !HasHost(member->state)) member->ask.Choose(choice);
}

// Whether one member, at least, of any of its alternatives fits there.
bool Core::CouldFit(const std::vector<const Host*>& freed, const Claim& claim) const {
  if (claim.state == ClaimState::kParked) return OwnPlaces(claim).has_value();
  if (claim.ask.sizes.empty()) return FindPlace(freed, claim).has_value();
  Claim asks = claim;
  for (uint32_t choice = 0; choice < claim.ask.choices(); ++choice) {
    asks.ask.Choose(choice);
    if (FindPlace(freed, asks)) return true;
  }
  return false;
}

// Lines to be looked at: those that are new, and where capacity has come all of the shapes that it
// may be enough for.
std::vector<Core::Line*> Core::OpenLines() {
  std::vector<Line*> open;
  for (const auto& [name, key] : std::exchange(new_lines_, {}))
    open.push_back(&shapes_.at(name).lines.at(key));
  if (scheduled_version_ == capacity_version_) return open;
  for (auto& [name, shape] : shapes_) {
    const Rank first = shape.ranks.begin()->first;
    if (IsBehind(shape, first)) {
      if (shape.failed_at == capacity_version_) continue;
      // What finds no room for the first finds none for anybody.
      if (std::optional<std::vector<const Host*>> freed = FreedSince(shape.failed_at)) {
        const Claim& claim = claims_.at(shape.ranks.begin()->second->claims.begin()->second);
        if (!CouldFit(*freed, claim)) {
          shape.failed_at = capacity_version_;
          if (!kept_.empty()) shape.failed = first;
          continue;
        }
      }
    }
    for (auto& [key, line] : shape.lines)
      if (!line.is_new) open.push_back(&line);
  }
  scheduled_version_ = capacity_version_;
  return open;
}

// Where places are kept from everybody else, whose they are has them as soon as they are free.
void Core::PlaceKept() {
  std::vector<std::string> owners;
  for (const auto& [owner, kept] : kept_)
    if (SequencerOf(GroupOf(claims_.at(owner).ask)).is_by_project()) owners.push_back(owner);
  for (const std::string& owner : owners) {
    Claim& claim = claims_.at(owner);
    std::vector<const Host*> hosts;
    for (const Place& place : kept_.at(owner).places)
      if (const Host* host = &hosts_.at(place.host);
          std::find(hosts.begin(), hosts.end(), host) == hosts.end())
        hosts.push_back(host);
    Shut(&claim, false);
    std::optional<GangPlaces> places = Look(&hosts, claim);
    if (places && LimitAt(claim, *places).empty()) Put(claim, *places);
  }
}

void Core::Schedule() {
  if (scheduled_version_ == capacity_version_ && new_lines_.empty()) return;
  if (!kept_.empty()) MarkKept();
  if (scheduled_version_ != capacity_version_) PlaceKept();
  const std::vector<Line*> open = OpenLines();
  if (open.empty()) return;
  if (groups_.size() == 1) return TryLines(*default_group_, open);
  std::map<std::string_view, std::vector<Line*>> of_groups;
  for (Line* line : open) of_groups[line->group->group.name].push_back(line);
  for (const auto& [name, lines] : of_groups) TryLines(*lines.front()->group, lines);
}

void Core::TryLines(const GroupState& group, const std::vector<Line*>& open) {
  const Sequencer& sequencer = SequencerOf(group);
  Turns turns([&](const ProjectState& project, const TenantPart* tenant) {
    return ValueOf(sequencer, project, tenant);
  });
  for (size_t i = 0; i < open.size(); ++i) {
    open[i]->is_open = true;
    turns.Add(*open[i]->project, *open[i]->tenant, i, open[i]->claims.begin()->first);
  }
  for (size_t left = open.size(); left != 0;) {
    Line* line = open[*turns.Next()];
    if (!line->is_open) {
      turns.Advance(std::nullopt);
      continue;
    }
    Shape& shape = *line->shape;
    const bool is_last = line->claims.size() == 1;
    if (TryPlace(shape, claims_.at(line->claims.begin()->second))) {
      if (is_last) --left;  // it is gone
      turns.Advance(is_last ? std::nullopt : std::optional(line->claims.begin()->first));
      continue;
    }
    line->is_open = line->is_new = false;
    left -= 1 + CloseLines(shape);
    turns.Advance(std::nullopt);
  }
}

// Of a shape for which there is no room: how many lines need not be looked at any more. Those that
// are new still may have others leave for them.
size_t Core::CloseLines(Shape& shape) const {
  if (shape.is_particular || shape.failed_at != capacity_version_) return 0;
  size_t closed = 0;
  for (auto& [key, line] : shape.lines) {
    if (!line.is_open || line.is_new || line.claims.begin()->first < shape.failed) continue;
    line.is_open = false;
    ++closed;
  }
  return closed;
}

bool Core::TryPlace(Shape& shape, Claim& claim) {
  const bool is_behind = IsBehind(shape, claim.rank());
  const bool has_failed = is_behind && shape.failed_at == capacity_version_;
  const uint32_t kept_choice = claim.ask.choice;  // of a place that is kept for it, else 0
  std::optional<std::vector<const Host*>> freed;
  bool is_limited = false, has_looked = false;
  const auto [first, last] = ChoicesOf(claim);
  for (uint32_t choice = first; choice < last; ++choice) {
    Choose(claim, choice);
    if (!LimitOf(claim, AskedBy(claim)).empty()) {
      is_limited = true;
      continue;
    }
    Shut(&claim, false);
    if (has_failed) continue;
    if (is_behind && !std::exchange(has_looked, true)) freed = FreedSince(shape.failed_at);
    const std::optional<GangPlaces> places = Look(freed ? &*freed : nullptr, claim);
    if (!places) continue;
    if (LimitAt(claim, *places).empty()) {
      Put(claim, *places);
      return true;
    }
    is_limited = true;
  }
  Choose(claim, kept_choice);
  if (!has_failed && !is_limited) NoteFailure(shape, claim.rank(), !freed);
  if (!is_limited || !claim.ask.sizes.empty()) Preempt(claim);
  return false;
}

void Core::Put(Claim& claim, const GangPlaces& places) {
  if (claim.state == ClaimState::kParked) return Resume(claim);
  const std::vector<Claim*> members = MembersOf(claim);
  for (size_t i = 0; i < members.size(); ++i) PutOne(*members[i], places[i]);
  if (!kept_.empty()) MarkKept();
}

void Core::PutOne(Claim& claim, const Place& place) {
  const Host& host = hosts_.at(place.host);
  claim.host = place.host;
  claim.devices = place.devices;
  claim.memory_bytes = BytesOf(claim.ask, host, claim.devices);
  claim.share_milli = ShareOn(host, claim.devices, claim.ask);
  ++claim.epoch;
  claim.was_granted = false;
  claim.granted_until = 0;
  Move(claim, ClaimState::kReserved);
  for (auto& [owner, kept] : kept_)
    if (kept.IsOn(claim.host)) kept.guests.insert(claim.id);
  beats_.insert(claim.host);
}

std::vector<Waiting> Core::InOrder(size_t most) const {
  std::vector<Waiting> all;
  for (const auto& [name, group] : groups_) {
    const std::vector<Waiting> order = InOrder(group, most);
    all.insert(all.end(), order.begin(), order.end());
  }
  return all;
}

std::vector<Waiting> Core::InOrder(const GroupState& group, size_t most) const {
  const Sequencer& sequencer = SequencerOf(group);
  std::map<std::pair<const ProjectState*, const TenantPart*>, Amounts> more;
  Turns turns([&](const ProjectState& project, const TenantPart* tenant) {
    auto found = more.find({&project, tenant});
    return ValueWith(sequencer, project, tenant, found == more.end() ? Amounts() : found->second);
  });
  struct At {
    const Line* line = nullptr;
    std::map<Rank, std::string>::const_iterator next;
  };
  std::vector<At> lines;
  for (const auto& [name, shape] : shapes_)
    for (const auto& [key, line] : shape.lines) {
      if (line.group != &group) continue;
      turns.Add(*line.project, *line.tenant, lines.size(), line.claims.begin()->first);
      lines.push_back({&line, line.claims.begin()});
    }
  std::vector<Waiting> order;
  while (order.size() < most) {
    std::optional<size_t> next = turns.Next();
    if (!next) break;
    At& at = lines[*next];
    const Claim& claim = claims_.at(at.next->second);
    const Amounts amounts = AskedBy(claim);
    order.push_back({&claim, LimitOf(claim, amounts)});
    for (const ProjectState* up = at.line->project; up != nullptr; up = up->parent)
      more[{up, nullptr}] += amounts;
    more[{at.line->project, at.line->tenant}] += amounts;
    ++at.next;
    turns.Advance(at.next == at.line->claims.end() ? std::nullopt : std::optional(at.next->first));
  }
  return order;
}

// Sums are made anew from the claims, so that what is counted as it goes along can be checked.
std::string Core::Broken() const {
  std::map<std::string, std::vector<Gpu>> sums;
  std::map<std::string, std::set<std::string>> held;
  std::map<std::string, uint64_t> parked;
  size_t pending = 0;
  for (const auto& [id, claim] : claims_) {
    if (claim.id != id) return "claim " + id + " is filed under another name";
    if (WaitsAsWhole(claim) && &LeaderOf(claim) == &claim && !claim.is_early) {
      ++pending;
      auto shape = shapes_.find(ShapeOf(claim));
      const LineKey key(claim.ask.project, claim.tenant);
      if (shape == shapes_.end() || shape->second.ranks.count(claim.rank()) == 0 ||
          shape->second.lines.count(key) == 0 ||
          shape->second.lines.at(key).claims.count(claim.rank()) == 0)
        return "claim " + id + " is pending and in no queue";
    }
    if (const uint32_t share = claim.ask.gflops == 0 ? claim.ask.share_milli : claim.share_milli;
        claim.share_milli != (HasHost(claim.state) ? share : 0) || claim.share_milli > kWholeMilli)
      return "claim " + id + " has a share of " + std::to_string(claim.share_milli);
    if (HasHost(claim.state) != !claim.host.empty())
      return "claim " + id + " is " + std::string(ToText(claim.state)) + " with host '" +
             claim.host + "'";
    if (!HasHost(claim.state)) continue;
    held[claim.host].insert(id);
    auto host = hosts_.find(claim.host);
    if (host == hosts_.end()) return "claim " + id + " is on an unknown host";
    if (claim.is_parked) {
      parked[claim.host] += claim.slab_bytes();
      continue;
    }
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
    if (Find(owner) == nullptr || !WaitsForPlace(Find(owner)->state))
      return "a place is kept for claim " + owner + ", which does not wait";
  std::map<std::string, uint32_t> of_tenants;
  for (const auto& [id, claim] : claims_)
    if (!IsOver(claim.state)) ++of_tenants[claim.tenant];
  for (const auto& [tenant, use] : tenants_)
    if (use.claims != of_tenants[tenant]) return "tenant '" + tenant + "': its claims are others";
  if (pending != pending_count_) return "the queue holds another number of claims";
  if (std::string wrong = BrokenPreemption(); !wrong.empty()) return wrong;
  if (std::string wrong = BrokenProject(); !wrong.empty()) return wrong;
  if (std::string wrong = BrokenReservation(); !wrong.empty()) return wrong;
  if (std::string wrong = BrokenGang(); !wrong.empty()) return wrong;
  if (std::string wrong = BrokenGroup(); !wrong.empty()) return wrong;
  for (const auto& [name, host] : hosts_) {
    if (host.claims != held[name]) return "host " + name + " lists other claims";
    if (host.parked_bytes != parked[name])
      return "host " + name + ": its parked bytes are not its claims'";
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
