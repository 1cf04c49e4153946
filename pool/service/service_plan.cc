// SPDX-License-Identifier: Apache-2.0
// Why claims wait and when they may start, also of claims that are not made.
#include "pool/core/forecast.h"
#include "pool/service/service_parts.h"

namespace farcall::pool {

namespace {

void Put(const StartEstimate& estimate, pb::Explanation* told) {
  if (estimate.starts_in) told->set_starts_in_ms(*estimate.starts_in);
  if (estimate.earliest) told->set_starts_earliest_ms(*estimate.earliest);
  if (estimate.latest) told->set_starts_latest_ms(*estimate.latest);
  told->set_cut_short(estimate.is_cut_short);
  told->set_start_basis(estimate.basis);
}

// What the claim counts in its project, and what that one deserves.
void PutCost(const Core& core, const Ask& ask, uint32_t members, uint64_t share_milli,
             pb::Explanation* told) {
  const uint64_t devices = uint64_t{ask.count} * std::max(members, 1u);
  const bool is_whole = ask.memory_bytes == 0;
  pb::ResourceUse* cost = told->mutable_cost();
  cost->set_memory_bytes(ask.memory_bytes * devices);
  cost->set_share_milli(share_milli);
  cost->set_gpus(is_whole ? devices : 0);
  const ProjectState* state = core.FindProject(ask.project.empty() ? kDefaultProject : ask.project);
  if (state == nullptr) return;
  const Bounds& deserved = state->project.deserved;
  std::string text = "project " + state->project.name + " uses " +
                     std::to_string(state->used.memory_bytes >> 20) + " MiB";
  if (deserved.memory_bytes) text += " of " + std::to_string(*deserved.memory_bytes >> 20);
  text += ", " + std::to_string(state->used.share_milli) + " thousandths";
  if (deserved.share_milli) text += " of " + std::to_string(*deserved.share_milli);
  text += ", " + std::to_string(state->used.gpus) + " whole GPUs";
  if (deserved.gpus) text += " of " + std::to_string(*deserved.gpus);
  told->set_quota(text + (deserved.is_empty() ? "; it has no quota" : " that it deserves"));
}

}  // namespace

Outcome Service::Explain(const Caller& caller, const pb::ClaimName& name, pb::Explanation* told) {
  Outcome outcome = NoClaim(name.id());
  std::optional<PoolCopy> copy;
  std::string waits;
  controller_->Read([&](const Core& core, Ms now) {
    const Claim* claim = core.Find(name.id());
    if (claim == nullptr || !caller.Sees(claim->tenant, ProjectOf(*claim))) return;
    const Explanation explained = core.Explain(*claim);
    *told = ToProto(explained);
    told->set_members(claim->gang_size);
    PutCost(core, claim->ask, claim->gang_size, explained.share_milli, told);
    outcome = {};
    if (!WaitsForPlace(claim->state)) return;
    waits = claim->gang.empty() ? claim->id : core.FindGang(claim->gang).front()->id;
    copy.emplace(core, now, kMaxPage);
  });
  // Not on the controller's thread, which has others to serve.
  if (copy && copy->Waits(waits)) Put(EstimateStart(*copy, waits), told);
  return outcome;
}

Outcome Service::Plan(const Caller& caller, const pb::ClaimRequest& request,
                      pb::Explanation* told) {
  return PlanFor(caller, request, 0, told);
}

Outcome Service::PlanFor(const Caller&, const pb::ClaimRequest& request, uint32_t members,
                         pb::Explanation* told) {
  Ask ask;
  if (std::optional<Refusal> wrong = ToAsk(request, &ask)) return Of(*wrong);
  if (auto [wrong, field] = FaultOf(ask); !wrong.empty())
    return Failed(400, "invalid", wrong, field);
  if (ask.begin_unix != 0)
    return Failed(400, "invalid", "begin: a plan is for now", "begin", "leave it out");
  std::optional<PoolCopy> copy;
  bool is_known = true, has_group = true;
  std::optional<Refusal> tflops_fault;
  controller_->Read([&](const Core& core, Ms now) {
    is_known = ask.reservation.empty() || core.reservations().count(ask.reservation) != 0;
    ask = core.Completed(ask);
    has_group = core.FindGroup(NameOfGroup(ask.group)) != nullptr;
    if (!is_known || !has_group) return;
    tflops_fault = core.TflopsFault(ask);
    if (tflops_fault) return;
    std::optional<GangPlaces> places;
    const Explanation plan = core.Plan(ask, members, &places);
    *told = ToProto(plan);
    told->set_state("plan");
    told->set_members(members);
    told->set_fits_now(places.has_value());
    PutCost(core, ask, members, plan.share_milli, told);
    copy.emplace(core, now, kMaxPage);
    if (!places) return;
    told->set_host(places->front().host);
    for (uint32_t device : places->front().devices) told->add_devices(device);
    for (const Place& place : *places)
      if (members != 0) told->add_hosts(place.host);
  });
  if (!is_known)
    return Failed(400, "invalid", "there is no reservation '" + ask.reservation + "'",
                  "reservation", "farcall pool reservation list shows them");
  if (!has_group)
    return Failed(400, "invalid", "there is no group '" + ask.group.substr(0, 64) + "'", "group",
                  "farcall pool group list shows them");
  if (tflops_fault) return Of(*tflops_fault);
  if (!copy) return {};
  copy->Add(ask, members);
  Put(EstimateStart(*copy, "plan"), told);
  return {};
}

}  // namespace farcall::pool
