// SPDX-License-Identifier: Apache-2.0
// Projects and the queue, as REST and gRPC ask for them.
#include "pool/core/forecast.h"
#include "pool/service/service_parts.h"

namespace farcall::pool {

Outcome Service::ListProjects(const Caller&, const pb::ListProjectsRequest& request,
                              pb::ProjectList* list) {
  const uint32_t limit = PageOf(request.limit());
  controller_->Read([&](const Core& core, Ms) {
    for (auto at = core.projects().upper_bound(request.page_token()); at != core.projects().end();
         ++at) {
      if (list->projects_size() == static_cast<int>(limit)) {
        list->set_next_page_token(list->projects(list->projects_size() - 1).name());
        return;
      }
      *list->add_projects() = ToProto(at->second);
    }
  });
  return {};
}

Outcome Service::GetProject(const Caller&, const pb::ProjectName& name, pb::Project* project) {
  bool is_there = false;
  controller_->Read([&](const Core& core, Ms) {
    const ProjectState* state = core.FindProject(name.name());
    if (state == nullptr) return;
    is_there = true;
    *project = ToProto(*state);
  });
  if (is_there) return {};
  return Failed(404, "not_found", "there is no project '" + name.name().substr(0, 128) + "'",
                "name", "farcall pool project list shows them");
}

Outcome Service::ChangeProject(const Caller& caller, const pb::Project& given,
                               pb::Project* project) {
  SetProject set{FromProto(given), IfRevision(given.if_revision())};
  set.project.usage_ms = 0;  // told, not set
  Effects effects = controller_->Apply(std::move(set));
  if (effects.refusal) return Of(*effects.refusal);
  pb::ProjectName name;
  name.set_name(given.name());
  return GetProject(caller, name, project);
}

Outcome Service::DeleteProject(const Caller& caller, const pb::ProjectName& name,
                               pb::Project* project) {
  Outcome found = GetProject(caller, name, project);
  if (!found.ok()) return found;
  Effects effects =
      controller_->Apply(pool::DeleteProject{name.name(), IfRevision(name.if_revision())});
  return effects.refusal ? Of(*effects.refusal) : Outcome();
}

Outcome Service::GetSnapshot(const Caller&, pb::Snapshot* snapshot) {
  controller_->Read([&](const Core& core, Ms now) { *snapshot = SnapshotOf(core, now); });
  return {};
}

// The reason is short: `:explain` says more.
Outcome Service::ListQueue(const Caller& caller, const pb::QueueRequest& request,
                           pb::Queue* queue) {
  constexpr std::chrono::milliseconds kLongest(100);
  const uint32_t limit = PageOf(request.limit());
  std::optional<PoolCopy> copy;
  bool is_known = true;
  controller_->Read([&](const Core& core, Ms now) {
    const GroupState* only = core.FindGroup(request.group());
    is_known = request.group().empty() || only != nullptr;
    if (!is_known) return;
    copy.emplace(core, now, kMaxPage);
    queue->set_sequencer(
        std::string((only == nullptr ? core.sequencer() : core.SequencerOf(*only)).name()));
    queue->set_waiting(static_cast<uint32_t>(only == nullptr ? core.pending() : only->pending));
    uint32_t place = 0;
    std::string group;
    for (const Waiting& waiting :
         only == nullptr ? core.InOrder(kMaxPage) : core.InOrder(*only, kMaxPage)) {
      if (std::exchange(group, waiting.claim->ask.group) != waiting.claim->ask.group) place = 0;
      ++place;
      if (!caller.Sees(waiting.claim->tenant, waiting.claim->ask.project)) continue;
      if (queue->claims_size() == static_cast<int>(limit)) return;
      pb::QueuedClaim* told = queue->add_claims();
      told->set_place(place);
      *told->mutable_claim() = ToProto(*waiting.claim, nullptr);
      told->set_waited_ms(now - waiting.claim->created);
      told->set_why(!waiting.limit.empty()           ? "waits for " + waiting.limit
                    : core.IsKeptFor(*waiting.claim) ? "a place is kept for it"
                    : waiting.claim->state == ClaimState::kParked
                        ? "parked on " + waiting.claim->host + " until its GPU is free"
                        : "waits for room");
    }
  });
  if (!is_known)
    return Failed(404, "not_found", "there is no group '" + request.group().substr(0, 64) + "'",
                  "group", "farcall pool group list shows them");
  if (!copy) return {};
  const Forecast forecast = copy->Foresee(1, std::chrono::steady_clock::now() + kLongest);
  queue->set_cut_short(forecast.is_cut_short);
  queue->set_start_basis(BasisOf(*copy));
  for (pb::QueuedClaim& told : *queue->mutable_claims()) {
    auto found = forecast.claims.find(told.claim().id());
    if (found == forecast.claims.end()) continue;
    told.set_starts_in_ms(*found->second.starts_in);
    told.set_ends_in_ms(*found->second.ends_in);
  }
  return {};
}

}  // namespace farcall::pool
