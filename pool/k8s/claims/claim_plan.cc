// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/claims/claim_plan.h"

#include <algorithm>
#include <tuple>

namespace farcall::k8s {

namespace {

using What = Step::What;

constexpr char kLostHost[] = "the pool does not hear of host ";

const PodUse* FindPod(const std::vector<PodUse>& pods, const std::string& uid) {
  auto at = std::find_if(pods.begin(), pods.end(), [&](const PodUse& p) { return p.uid == uid; });
  return at == pods.end() ? nullptr : &*at;
}

// The one that may use the claim: who has it keeps it, else the oldest.
const PodUse* UserOf(const Situation& now) {
  if (const PodUse* user = FindPod(now.pods, now.object->status.pod_uid)) return user;
  auto first = std::min_element(
      now.pods.begin(), now.pods.end(), [](const PodUse& one, const PodUse& other) {
        return std::tie(one.created, one.uid) < std::tie(other.created, other.uid);
      });
  return first == now.pods.end() ? nullptr : &*first;
}

void ShowHeld(const Situation& now, ClaimStatus* status) {
  const pool::v1::Claim& held = *now.held;
  const bool is_bound = IsHeldState(held.state());
  status->phase = is_bound ? "Bound" : "Pending";
  status->claim = held.id();
  status->host = is_bound ? held.host() : "";
  status->gpus.assign(held.devices().begin(), held.devices().end());
  if (!is_bound) status->gpus.clear();
  status->memory_bytes = is_bound ? held.memory_bytes() : 0;
  if (!is_bound)
    status->reason = now.why.empty() ? "waits in the pool" : now.why;
  else if (held.host_lost())
    status->reason = kLostHost + held.host();
  else if (now.object->status.phase != "Bound" || status->reason.rfind(kLostHost, 0) == 0)
    status->reason.clear();  // else it is what a change was answered
}

void ShowNone(ClaimStatus* status) {
  if (!status->claim.empty()) ++status->bindings;
  status->claim.clear();
  status->host.clear();
  status->gpus.clear();
  status->memory_bytes = 0;
}

Step Report(const Situation& now, const ClaimStatus& status) {
  if (status == now.object->status) return {};
  return {What::kReport, status, ""};
}

// Of one that the pool has nothing of.
Step WithoutClaim(const Situation& now, const ClaimStatus& named, const PodUse* user) {
  const ClaimObject& object = *now.object;
  const bool waits = now.of_class != nullptr && now.of_class->waits;
  const bool was_used = object.status.phase == "Released";
  const bool is_lost = !object.status.claim.empty();  // released by us, or ended in the pool
  ClaimStatus status = named;
  ShowNone(&status);
  const bool is_wanted = user != nullptr || (!waits && !was_used);
  const Result<Ask> ask = AskOf(object, now.of_class);
  if (!ask.ok()) {
    status.phase = "Failed";
    status.reason = ask.status().message();
    return Report(now, status);
  }
  const bool pod_has_ended =
      !object.status.pod_uid.empty() && status.pod_uid != object.status.pod_uid;
  if (pod_has_ended && user == nullptr) {
    status.phase = "Released";
    status.reason = "its pod has ended";
    return Report(now, status);
  }
  if (!is_wanted) {
    if (was_used) return Report(now, status);
    status.phase = "Pending";
    status.reason = "waits for a pod that names it";
    return Report(now, status);
  }
  if (is_lost && !pod_has_ended) {
    status.phase = "Pending";
    status.reason = "the pool's claim " + object.status.claim + " has ended";
    return Report(now, status);
  }
  if (!object.has_finalizer()) return {What::kAddFinalizer, {}, ""};
  // Whose it is, and of which spec, stands there before it is requested: whoever follows this
  // controller knows then that the pod's end is the claim's.
  status.generation = object.generation;
  status.phase = "Pending";
  status.reason = object.status.phase == "Pending" ? object.status.reason : "";
  if (status != object.status) return {What::kReport, status, ""};
  return {What::kRequest, status, ""};
}

}  // namespace

bool IsHeldState(const std::string& state) {
  return state == "bound" || state == "active" || state == "idle" || state == "preempting" ||
         state == "parked";
}

bool IsLiveState(const std::string& state) {
  return IsHeldState(state) || state == "pending" || state == "reserved";
}

Step NextStep(const Situation& now) {
  const ClaimObject& object = *now.object;
  if (object.is_deleting) {
    if (now.held) return {What::kRelease, {}, now.held->id()};
    return object.has_finalizer() ? Step{What::kDropFinalizer, {}, ""} : Step{};
  }
  if (now.of_class != nullptr && now.of_class->provisioner != kProvisioner) return {};
  const PodUse* user = UserOf(now);
  ClaimStatus status = object.status;
  status.pod = user == nullptr ? "" : user->name;
  status.pod_uid = user == nullptr ? "" : user->uid;
  if (!now.held) return WithoutClaim(now, status, user);
  const bool retains = now.of_class != nullptr && now.of_class->retains;
  const bool pod_has_ended =
      !object.status.pod_uid.empty() && status.pod_uid != object.status.pod_uid;
  // What was requested and not reported yet is of the same pod.
  if (pod_has_ended && !retains &&
      (object.status.claim.empty() || object.status.claim == now.held->id()))
    return {What::kRelease, {}, now.held->id()};
  if (!object.has_finalizer()) return {What::kAddFinalizer, {}, ""};
  if (object.status.claim == now.held->id() && object.status.generation != object.generation)
    return {What::kChange, status, now.held->id()};
  ShowHeld(now, &status);
  return Report(now, status);
}

}  // namespace farcall::k8s
