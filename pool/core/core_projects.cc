// SPDX-License-Identifier: Apache-2.0
// Projects as objects, and what their claims and those of their children use.
#include <algorithm>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr char kListsThem[] = "farcall pool project list shows them";

}  // namespace

const ProjectState* Core::FindProject(const std::string& name) const {
  auto found = projects_.find(name);
  return found == projects_.end() ? nullptr : &found->second;
}

// The project and those above it, from the bottom up.
std::vector<ProjectState*> Core::LineageOf(const std::string& name) {
  std::vector<ProjectState*> lineage;
  for (ProjectState* at = &projects_.at(name); at != nullptr; at = at->parent)
    lineage.push_back(at);
  return lineage;
}

// The state of a project that is new or has changed, with what it uses of each model.
void Core::Establish(const Project& project) {
  ProjectState& state = projects_[project.name];
  const double usage = state.project.name.empty() ? project.usage_ms : state.usage_ms;
  state.project = project;
  state.project.tenant_usage_ms.clear();  // its tenants have it
  state.usage_ms = usage;
  auto parent = projects_.find(ParentOf(project.name));
  state.parent = parent == projects_.end() ? nullptr : &parent->second;
  state.of_models.assign(project.models.size(), {});
  for (const auto& [id, claim] : claims_)
    if (!project.models.empty() && HoldsGpus(claim) && IsWithin(claim.ask.project, project.name))
      CountModels(&state, claim, hosts_.at(claim.host), true);
}

void Core::LoadProjects(std::vector<Project> projects) {
  projects_.clear();
  // Parents come before their children.
  std::sort(projects.begin(), projects.end(),
            [](const Project& a, const Project& b) { return a.name < b.name; });
  for (const Project& project : projects) {
    revision_ = std::max(revision_, project.revision);
    Establish(project);
    ProjectState& state = projects_.at(project.name);
    state.usage_at = now_;
    for (const auto& [tenant, usage_ms] : project.tenant_usage_ms) {
      TenantPart& part = state.tenants[tenant];
      part.usage_ms = usage_ms;
      part.usage_at = now_;
    }
  }
  if (projects_.count(kDefaultProject) != 0) return;
  Project other;
  other.name = kDefaultProject;
  Establish(other);
}

void Core::On(const SetProject& event) {
  const std::string& name = event.project.name;
  if (auto [wrong, field] = FaultOf(event.project); !wrong.empty())
    return Refuse(RefusalCode::kInvalid, wrong, field);
  auto found = projects_.find(name);
  const bool is_new = found == projects_.end();
  const uint64_t revision = is_new ? 0 : found->second.project.revision;
  if (event.if_revision && *event.if_revision != revision)
    return Refuse(RefusalCode::kConflict,
                  "revision " + std::to_string(*event.if_revision) +
                      (is_new ? ": there is no project '" + name + "'"
                              : ": it is " + std::to_string(revision) + " by now"),
                  "If-Match", "read it again");
  const std::string parent = ParentOf(name);
  if (!parent.empty() && projects_.count(parent) == 0)
    return Refuse(RefusalCode::kInvalid, "there is no project '" + parent + "' above it", "name",
                  "set that one first");
  if (is_new && projects_.size() >= limits_.projects)
    return Refuse(
        RefusalCode::kTooMany,
        "the pool has " + std::to_string(projects_.size()) + " projects, which is all it can",
        "name");
  // Which claims ask for the same may be another question from now on.
  std::vector<const Claim*> waiting;
  for (const auto& [key, shape] : shapes_)
    for (const auto& [line, claims] : shape.lines)
      if (IsWithin(line.first, name))
        for (const auto& [rank, id] : claims.claims) waiting.push_back(&claims_.at(id));
  for (const Claim* claim : waiting) Dequeue(*claim);  // each stands for its gang
  Project project = event.project;
  project.revision = ++revision_;
  Establish(project);
  for (const Claim* claim : waiting) Enqueue(*claim);
  effects_->projects.insert(name);
  Say(is_new ? "project_made" : "project_changed", "", "", name);
}

void Core::On(const DeleteProject& event) {
  auto found = projects_.find(event.name);
  if (found == projects_.end())
    return Refuse(RefusalCode::kNotFound, "there is no project '" + event.name + "'", "name",
                  kListsThem);
  if (event.if_revision && *event.if_revision != found->second.project.revision)
    return Refuse(RefusalCode::kConflict,
                  "revision " + std::to_string(*event.if_revision) + ": it is " +
                      std::to_string(found->second.project.revision) + " by now",
                  "If-Match", "read it again");
  if (event.name == kDefaultProject)
    return Refuse(RefusalCode::kConflict, "the project 'default' is always there", "name");
  if (auto child = projects_.lower_bound(event.name + "/");
      child != projects_.end() && IsWithin(child->first, event.name))
    return Refuse(RefusalCode::kConflict,
                  "project '" + event.name + "' has a child '" + child->first + "'", "name",
                  "delete that one first");
  if (found->second.claims() != 0)
    return Refuse(RefusalCode::kConflict,
                  "project '" + event.name + "' has " + std::to_string(found->second.claims()) +
                      " claim(s) that are not over",
                  "name", "release them first");
  // Roles would be those of another project of that name.
  if (accounts_.Names(event.name))
    return Refuse(RefusalCode::kConflict,
                  "project '" + event.name + "' is named by roles or tokens", "name",
                  "farcall pool user list and farcall pool token list show them");
  for (const auto& [name, state] : groups_)
    if (std::count(state.group.projects.begin(), state.group.projects.end(), event.name) != 0)
      return Refuse(RefusalCode::kConflict,
                    "project '" + event.name + "' is named by group '" + name + "'", "name",
                    "change that one first: farcall pool group set");
  projects_.erase(found);
  effects_->projects.insert(event.name);
  Say("project_deleted", "", "", event.name);
}

// Whether so many more may wait in the project; or refuses.
bool Core::MayWait(const std::string& name, const std::string& tenant, uint32_t claims) {
  if (projects_.count(name) == 0) {
    Refuse(RefusalCode::kInvalid, "there is no project '" + name + "'", "project", kListsThem);
    return false;
  }
  auto full = [&](uint32_t most, size_t waiting, const std::string& whose) {
    if (most == 0 || waiting + claims <= most) return false;
    Refuse(RefusalCode::kTooMany,
           whose + ": " + std::to_string(waiting) + " claims wait, of " + std::to_string(most) +
               " that may",
           "project", "release one, or try again later");
    return true;
  };
  for (const ProjectState* state : LineageOf(name))
    if (full(state->project.max_pending, state->pending, "project '" + state->project.name + "'"))
      return false;
  ProjectState& own = projects_.at(name);
  auto use = own.tenants.find(tenant);
  return use == own.tenants.end() || !full(own.project.tenant_max_pending, use->second.pending,
                                           "project '" + name + "', this tenant");
}

void Core::CountWaiting(const Claim& claim, bool waits) {
  const size_t one = waits ? 1 : size_t{0} - 1;
  for (ProjectState* state : LineageOf(claim.ask.project)) state->pending += one;
  GroupOf(claim.ask).pending += one;
  auto& tenants = projects_.at(claim.ask.project).tenants;
  tenants[claim.tenant].pending += one;  // SweepUsage forgets it
}

Amounts Core::AmountsOf(const Claim& claim, const Host& host) {
  Amounts amounts;
  for (uint32_t device : claim.devices) {
    Amounts one;
    one.memory_bytes = claim.held_bytes();
    one.share_milli = claim.is_exclusive() ? kWholeMilli : claim.held_milli();
    one.gpus = claim.is_exclusive() ? 1 : 0;
    const uint64_t all = device < host.gpus.size() ? host.gpus[device].memory_bytes : 0;
    const double part =
        all == 0 ? 0
                 : static_cast<double>(one.memory_bytes) * kWholeMilli / static_cast<double>(all);
    one.device_milli = std::max(one.share_milli, static_cast<uint64_t>(std::min(part, 1e3)));
    amounts += one;
  }
  amounts.net_bytes_per_s = claim.ask.net_bytes_per_s;
  return amounts;
}

// The same claim is counted off as it was counted on: what a host says of its GPUs changes only
// between the two.
void Core::CountUse(const Claim& claim, const Host& host, bool held) {
  const Amounts amounts = AmountsOf(claim, host);
  const size_t one = held ? 1 : size_t{0} - 1;
  auto count = [&](Amounts* used) {
    if (held)
      *used += amounts;
    else
      *used -= amounts;
  };
  for (ProjectState* state : LineageOf(claim.ask.project)) {
    Accrue(state);
    count(&state->used);
    state->held += one;
    CountModels(state, claim, host, held);
  }
  GroupOf(claim.ask).held += one;
  TenantPart& part = projects_.at(claim.ask.project).tenants[claim.tenant];
  Accrue(&part);
  count(&part.used);
  part.held += one;
}

void Core::CountModels(ProjectState* state, const Claim& claim, const Host& host, bool held) {
  for (size_t i = 0; i < state->project.models.size(); ++i) {
    Claim part = claim;  // its GPUs of that model
    std::erase_if(part.devices, [&](uint32_t device) {
      return device >= host.gpus.size() ||
             host.gpus[device].name.find(state->project.models[i].model) == std::string::npos;
    });
    if (part.devices.empty()) continue;
    if (held)
      state->of_models[i] += AmountsOf(part, host);
    else
      state->of_models[i] -= AmountsOf(part, host);
  }
}

// What Broken adds: sums made anew from the claims.
std::string Core::BrokenProject() const {
  std::map<std::string, ProjectState> sums;
  for (const auto& [id, claim] : claims_) {
    if (IsOver(claim.state)) continue;
    if (FindProject(claim.ask.project) == nullptr)
      return "claim " + id + " is of project '" + claim.ask.project + "', which is not there";
    const bool is_held = HoldsGpus(claim);
    if (!is_held && !WaitsForPlace(claim.state)) continue;
    for (std::string at = claim.ask.project; !at.empty(); at = ParentOf(at)) {
      ProjectState& sum = sums[at];
      (is_held ? sum.held : sum.pending) += 1;
      if (!is_held) continue;
      sum.used += AmountsOf(claim, hosts_.at(claim.host));
      sum.project = FindProject(at)->project;
      sum.of_models.resize(sum.project.models.size());
      CountModels(&sum, claim, hosts_.at(claim.host), true);
    }
  }
  for (const auto& [name, state] : projects_) {
    const ProjectState& sum = sums[name];
    if (sum.pending != state.pending || sum.held != state.held || !(sum.used == state.used))
      return "project '" + name + "': its counts are not its claims'";
    if (sum.held != 0 && sum.of_models != state.of_models)
      return "project '" + name + "': its counts of models are not its claims'";
    const ProjectState* parent = FindProject(ParentOf(name));
    if (state.parent != parent || (parent == nullptr) != ParentOf(name).empty())
      return "project '" + name + "' has another parent";
  }
  return "";
}

}  // namespace farcall::pool
