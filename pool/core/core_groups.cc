// SPDX-License-Identifier: Apache-2.0
// Resource groups as objects, which hosts are theirs, and who may use them. Claims of different
// groups share no host, so each group's lines take their turns by themselves; what projects hold
// counts over all groups.
#include <algorithm>
#include <utility>

#include "pool/core/core.h"
#include "settings/oversubscribe.h"

namespace farcall::pool {

namespace {

constexpr char kListsThem[] = "farcall pool group list shows them";

}  // namespace

const GroupState* Core::FindGroup(const std::string& name) const {
  auto found = groups_.find(name);
  return found == groups_.end() ? nullptr : &found->second;
}

const GroupState& Core::GroupOf(const Ask& ask) const {
  return ask.group.empty() ? *default_group_ : groups_.at(ask.group);
}

GroupState& Core::GroupOf(const Ask& ask) {
  return ask.group.empty() ? *default_group_ : groups_.at(ask.group);
}

const Sequencer& Core::SequencerOf(const GroupState& group) const {
  return group.sequencer != nullptr ? *group.sequencer : *sequencer_;
}

bool Core::RemembersUsage() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [this](const auto& one) { return SequencerOf(one.second).name() == "fair"; });
}

Ask Core::Completed(Ask ask) const {
  if (ask.project.empty()) ask.project = kDefaultProject;
  ask.group = KeptGroup(ask.group);
  if (auto found = reservations_.find(ask.reservation);
      ask.group.empty() && found != reservations_.end())
    ask.group = found->second.group;
  ask.Choose(0);
  if (ask.sizes.size() == 1) ask.sizes.clear();  // no other than what it asks for
  if (ask.placer != Placer::kUnnamed) return ask;
  const GroupState* group = FindGroup(NameOfGroup(ask.group));
  const bool says = group != nullptr && group->group.placer != Placer::kUnnamed;
  ask.placer = says ? group->group.placer : placer_;
  return ask;
}

void Core::Establish(Group group) {
  GroupState& state = groups_[group.name];
  state.sequencer = group.sequencer.empty() ? nullptr : MakeSequencer(group.sequencer);
  state.group = std::move(group);
}

void Core::LoadGroups(std::vector<Group> groups) {
  groups_.clear();
  Group other;
  other.name = kDefaultGroup;
  Establish(std::move(other));
  default_group_ = &groups_.at(kDefaultGroup);
  for (Group& group : groups) {
    revision_ = std::max(revision_, group.revision);
    Establish(std::move(group));
  }
}

std::string Core::GroupOfHost(const Host& host) const {
  for (const auto& [name, state] : groups_)
    if (Names(state.group, host)) return name;
  for (const auto& [name, state] : groups_)
    if (Selects(state.group, host)) return name;
  return "";
}

PlacerInputs Core::InputsOf(const Ask& ask) const {
  const GroupState& state = GroupOf(ask);
  return {&state.demand, &RoundTripsOf(state.group)};
}

// The default group's are of all that have none.
const std::vector<RoundTrip>& Core::RoundTripsOf(const Group& group) const {
  return group.round_trips.empty() ? default_group_->group.round_trips : group.round_trips;
}

// What its group says of its GPUs: their TFLOPS, and how much of their memory is lent. True: it is
// not as before.
bool Core::Rate(Host& host) const {
  const Group& group = FindGroup(NameOfGroup(host.group))->group;
  const std::vector<ModelTflops>& table = TflopsOf(group);
  const uint32_t milli = std::min(group.oversubscribe_milli, host.oversubscribe_milli);
  bool is_changed = false;
  for (Gpu& gpu : host.gpus) {
    const uint32_t gflops = std::exchange(gpu.gflops, GflopsOf(gpu.name, table));
    const uint64_t bytes = std::exchange(gpu.extra_bytes, LentBeyond(gpu.memory_bytes, milli));
    is_changed = is_changed || gflops != gpu.gflops || bytes != gpu.extra_bytes;
  }
  if (is_changed) host.Summarise();
  return is_changed;
}

void Core::FileHost(Host& host) {
  host.Arrange();
  std::string group = groups_.size() == 1 ? "" : GroupOfHost(host);
  const bool is_moved = group != host.group;
  host.group = std::move(group);
  if (!Rate(host) && !is_moved) return;
  CapacityCame(&host);
  if (effects_ != nullptr) effects_->shown_hosts.insert(host.name);
}

// Which group another says that it has, of those that there would be.
std::string Core::FaultAmong(const Group& group, const std::map<std::string, Group>& groups) {
  for (const std::string& host : group.hosts)
    for (const auto& [name, other] : groups)
      if (name != group.name &&
          std::find(other.hosts.begin(), other.hosts.end(), host) != other.hosts.end())
        return "host '" + host + "' is of group '" + name + "' already";
  return "";
}

std::map<std::string, Group> Core::Groups() const {
  std::map<std::string, Group> groups;
  for (const auto& [name, state] : groups_) groups[name] = state.group;
  return groups;
}

void Core::On(const SetGroup& event) {
  const Group& group = event.group;
  if (auto [wrong, field] = FaultOf(group); !wrong.empty())
    return Refuse(RefusalCode::kInvalid, wrong, field);
  if (!group.sequencer.empty() && MakeSequencer(group.sequencer) == nullptr)
    return Refuse(RefusalCode::kInvalid,
                  "sequencer '" + group.sequencer.substr(0, 64) + "': fifo, lifo, drf or fair",
                  "sequencer");
  const GroupState* known = FindGroup(group.name);
  const uint64_t revision = known == nullptr ? 0 : known->group.revision;
  if (event.if_revision && *event.if_revision != revision)
    return Refuse(RefusalCode::kConflict,
                  "revision " + std::to_string(*event.if_revision) +
                      (known == nullptr ? ": there is no group '" + group.name + "'"
                                        : ": it is " + std::to_string(revision) + " by now"),
                  "If-Match", "read it again");
  for (const std::string& project : group.projects)
    if (projects_.count(project) == 0)
      return Refuse(RefusalCode::kInvalid, "there is no project '" + project + "'", "projects",
                    "farcall pool project list shows them");
  if (std::string wrong = FaultAmong(group, Groups()); !wrong.empty())
    return Refuse(RefusalCode::kInvalid, wrong, "hosts", "take it off that one first");
  if (known == nullptr && groups_.size() >= limits_.groups)
    return Refuse(RefusalCode::kTooMany,
                  "the pool has " + std::to_string(groups_.size()) + " groups, which is all it can",
                  "name");
  PutGroup(group);
}

// Its claims take their turns by another rule, maybe, and have other limits.
void Core::PutGroup(Group group) {
  const std::string kept = KeptGroup(group.name);
  std::vector<const Claim*> waiting;
  for (const auto& [key, shape] : shapes_)
    for (const auto& [line, claims] : shape.lines)
      for (const auto& [rank, id] : claims.claims)
        if (claims_.at(id).ask.group == kept) waiting.push_back(&claims_.at(id));
  for (const Claim* claim : waiting) Dequeue(*claim);  // each stands for its gang
  const bool is_new = FindGroup(group.name) == nullptr;
  group.revision = ++revision_;
  Establish(group);
  const Sequencer& sequencer = SequencerOf(groups_.at(group.name));
  for (auto& [id, claim] : claims_)
    if (claim.ask.group == kept) claim.turn = sequencer.TurnOf(claim.order);
  for (const Claim* claim : waiting) Enqueue(*claim);
  for (auto& [name, host] : hosts_) FileHost(host);
  CapacityCame(nullptr);  // for those whom a limit or a rule kept off
  if (!kept_.empty()) MarkKept();
  CountCapacity();
  effects_->groups.insert(group.name);
  Say(is_new ? "group_made" : "group_changed", "", "", group.name);
}

void Core::On(const DeleteGroup& event) {
  const GroupState* found = FindGroup(event.name);
  if (found == nullptr)
    return Refuse(RefusalCode::kNotFound, "there is no group '" + event.name.substr(0, 64) + "'",
                  "name", kListsThem);
  if (event.if_revision && *event.if_revision != found->group.revision)
    return Refuse(RefusalCode::kConflict,
                  "revision " + std::to_string(*event.if_revision) + ": it is " +
                      std::to_string(found->group.revision) + " by now",
                  "If-Match", "read it again");
  if (event.name == kDefaultGroup)
    return Refuse(RefusalCode::kConflict, "the group 'default' is always there", "name",
                  "set it to change its rules");
  const auto of_it = std::count_if(claims_.begin(), claims_.end(), [&](const auto& one) {
    return one.second.ask.group == event.name && !IsOver(one.second.state);
  });
  if (of_it != 0)
    return Refuse(
        RefusalCode::kConflict,
        "group '" + event.name + "' has " + std::to_string(of_it) + " claim(s) that are not over",
        "name", "release them first");
  for (const auto& [name, reservation] : reservations_)
    if (reservation.group == event.name)
      return Refuse(RefusalCode::kConflict,
                    "group '" + event.name + "' has GPUs of reservation '" + name + "'", "name",
                    "delete that one first");
  // Those that are over are looked at for an hour still.
  for (auto& [id, claim] : claims_) {
    if (claim.ask.group != event.name) continue;
    claim.ask.group.clear();
    claim.turn = SequencerOf(*default_group_).TurnOf(claim.order);
    default_group_->demand.Add(claim.ask);
    Store(claim);
  }
  groups_.erase(event.name);
  for (auto& [name, host] : hosts_) FileHost(host);
  CountCapacity();
  effects_->groups.insert(event.name);
  Say("group_deleted", "", "", event.name);
}

// Whether a claim may ask for the group; or refuses.
bool Core::MayUseGroup(const Ask& ask, uint32_t claims) {
  const std::string name = NameOfGroup(ask.group);
  const GroupState* state = FindGroup(name);
  if (state == nullptr) {
    Refuse(RefusalCode::kInvalid, "there is no group '" + name.substr(0, 64) + "'", "group",
           kListsThem);
    return false;
  }
  if (!Takes(state->group, ask.project)) {
    Refuse(RefusalCode::kDenied,
           "group '" + name + "' takes no claims of project '" + ask.project + "'", "group",
           "its projects are " + ProjectsText(state->group));
    return false;
  }
  if (state->group.max_pending == 0 || state->pending + claims <= state->group.max_pending)
    return true;
  Refuse(RefusalCode::kTooMany,
         "group '" + name + "': " + std::to_string(state->pending) + " claims wait, of " +
             std::to_string(state->group.max_pending) + " that may",
         "group", "release one, or try again later");
  return false;
}

std::string Core::ProjectsText(const Group& group) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < group.projects.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + group.projects[i];
  return group.projects.size() > kShown ? text + ", ..." : text;
}

// What of its group keeps the claim waiting; "": nothing.
std::string Core::GroupLimitOf(const Claim& claim) const {
  const GroupState& state = GroupOf(claim.ask);
  const Group& group = state.group;
  if (!Takes(group, claim.ask.project))
    return "group '" + group.name + "' to take claims of project '" + claim.ask.project +
           "'; its projects are " + ProjectsText(group);
  if (group.max_claims != 0 && state.held + claim.members() > group.max_claims)
    return "the limit of group '" + group.name + "' on claims, " + std::to_string(group.max_claims);
  return "";
}

// What Broken adds.
std::string Core::BrokenGroup() const {
  if (FindGroup(kDefaultGroup) != default_group_) return "the group 'default' is not there";
  std::map<std::string, GroupState> sums;
  for (const auto& [id, claim] : claims_) {
    const std::string name = NameOfGroup(claim.ask.group);
    const GroupState* state = FindGroup(name);
    if (state == nullptr) return "claim " + id + " is of group '" + name + "', which is not there";
    GroupState& sum = sums[name];
    sum.demand.Add(claim.ask);
    sum.pending += WaitsForPlace(claim.state) ? 1 : 0;
    sum.held += HoldsGpus(claim) ? 1 : 0;
    if (claim.turn != SequencerOf(*state).TurnOf(claim.order))
      return "claim " + id + " has a turn that its group does not give";
    if (claim.state == ClaimState::kPending && claim.ask.choice != 0 &&
        kept_.count(claim.id) == 0 && claim.gang.empty())
      return "claim " + id + " waits, and has chosen already";
  }
  for (const auto& [name, state] : groups_) {
    const GroupState& sum = sums[name];
    if (sum.pending != state.pending || sum.held != state.held)
      return "group '" + name + "': its counts are not its claims'";
    if (!(sum.demand == state.demand)) return "group '" + name + "': its demand is not its claims'";
  }
  for (const auto& [name, host] : hosts_) {
    if (host.group != GroupOfHost(host)) return "host " + name + " is of another group";
    if (Host rated = host; Rate(rated))
      return "host " + name + ": its GPUs' TFLOPS or memory are not as its group says";
  }
  return "";
}

}  // namespace farcall::pool
