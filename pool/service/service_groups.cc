// SPDX-License-Identifier: Apache-2.0
// Resource groups, as REST and gRPC ask for them.
#include "pool/service/service_parts.h"
#include "proto/printable.h"

namespace farcall::pool {

namespace {

pb::Group ToProto(const Core& core, const GroupState& state) {
  pb::Group told = ToProto(state.group);
  uint32_t gpus = 0;
  for (const auto& [name, host] : core.hosts()) {
    if (NameOfGroup(host.group) != state.group.name) continue;
    told.add_members(name);
    gpus += static_cast<uint32_t>(host.gpus.size());
  }
  told.set_gpus(gpus);
  told.set_pending(static_cast<uint32_t>(state.pending));
  told.set_claims(static_cast<uint32_t>(state.held));
  return told;
}

}  // namespace

Outcome Service::ListGroups(const Caller&, const pb::ListGroupsRequest& request,
                            pb::GroupList* list) {
  const uint32_t limit = PageOf(request.limit());
  controller_->Read([&](const Core& core, Ms) {
    for (auto at = core.groups().upper_bound(request.page_token()); at != core.groups().end();
         ++at) {
      if (list->groups_size() == static_cast<int>(limit)) {
        list->set_next_page_token(std::prev(at)->first);
        return;
      }
      *list->add_groups() = ToProto(core, at->second);
    }
  });
  return {};
}

Outcome Service::GetGroup(const Caller&, const pb::GroupName& name, pb::Group* group) {
  bool is_there = false;
  controller_->Read([&](const Core& core, Ms) {
    const GroupState* state = core.FindGroup(name.name());
    if (state == nullptr) return;
    is_there = true;
    *group = ToProto(core, *state);
  });
  if (is_there) return {};
  return Failed(404, "not_found", "there is no group '" + Printable(name.name(), 64) + "'", "name",
                "farcall pool group list shows them");
}

Outcome Service::ChangeGroup(const Caller& caller, const pb::Group& given, pb::Group* group) {
  SetGroup set{{}, IfRevision(given.if_revision())};
  if (std::optional<Refusal> wrong = ToGroup(given, &set.group)) return Of(*wrong);
  Effects effects = controller_->Apply(std::move(set));
  if (effects.refusal) return Of(*effects.refusal);
  pb::GroupName name;
  name.set_name(given.name());
  return GetGroup(caller, name, group);
}

Outcome Service::DeleteGroup(const Caller& caller, const pb::GroupName& name, pb::Group* group) {
  Outcome found = GetGroup(caller, name, group);
  if (!found.ok()) return found;
  Effects effects =
      controller_->Apply(pool::DeleteGroup{name.name(), IfRevision(name.if_revision())});
  return effects.refusal ? Of(*effects.refusal) : Outcome();
}

}  // namespace farcall::pool
