// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/controller/claim_loop.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "pool/k8s/pods/pod.h"
#include "pool/k8s/process/process.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"controller"};
namespace pb = farcall::pool::v1;
using std::chrono::seconds;

// A claim that is not used has to be renewed within 120 s at first, and within 10 minutes later.
constexpr seconds kRenewPause{45};
constexpr seconds kExplainPause{30};
constexpr size_t kExplainsAtOnce = 32;
constexpr seconds kFirstDelay{1};
constexpr int kMaxDoublings = 6;
constexpr int kMaxSteps = 20;
constexpr int kHttpNotFound = 404, kHttpConflict = 409;

std::string PathOf(const ClaimObject& object) {
  return ClaimPath(object.space, object.name);
}

std::string TitleOf(const ClaimObject& object) {
  return (object.is_elastic() ? "ElasticGPUClaim " : "VGPUClaim ") + object.own_name();
}

EventOn On(const ClaimObject& object) {
  if (object.is_elastic())
    return {kElasticGroupVersion, "ElasticGPUClaim", object.space, object.own_name(), object.uid};
  return {kGroupVersion, "VGPUClaim", object.space, object.name, object.uid};
}

}  // namespace

void ClaimLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ClaimLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ClaimLoop::Wake(const ClaimKey& key) {
  {
    std::lock_guard lock(mutex_);
    waiting_.insert(key);
  }
  wake_.notify_all();
}

void ClaimLoop::WakeUid(const std::string& uid) {
  if (uid.empty()) return WakeAll();
  if (std::optional<ClaimKey> key = view_->KeyOf(uid)) return Wake(*key);
  {
    std::lock_guard lock(mutex_);
    has_orphans_ = true;
  }
  wake_.notify_all();
}

void ClaimLoop::WakeAll() {
  {
    std::lock_guard lock(mutex_);
    is_all_ = true;
  }
  wake_.notify_all();
}

void ClaimLoop::Delay(const ClaimKey& key) {
  const int failures = std::min(failures_[key]++, kMaxDoublings);
  delayed_[key] = Clock::now() + kFirstDelay * (1 << failures);
}

void ClaimLoop::Run() {
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = next_renewal_;
    for (const auto& [key, at] : delayed_) next = std::min(next, at);
    if (waiting_.empty() && !is_all_ && !has_orphans_ && now < next) {
      wake_.wait_until(lock, next);
      continue;
    }
    const bool is_all = std::exchange(is_all_, false);
    const bool has_orphans = std::exchange(has_orphans_, false);
    std::set<ClaimKey> keys = std::exchange(waiting_, {});
    lock.unlock();
    if (now >= next_renewal_) {
      if (renews_()) Renew();
      next_renewal_ = Clock::now() + kRenewPause;
    }
    // Who does not lead, or has not heard all, is woken when that changes.
    if (MayAct()) {
      if (is_all)
        for (ClaimKey& key : view_->Claims()) keys.insert(std::move(key));
      if (is_all || has_orphans) {
        const Status done = ReleaseOrphans();
        if (!done.ok() && done.message() != said_) kProcess.Warn(done.message());
        said_ = done.message();
      }
      for (auto& [key, at] : delayed_)
        if (at <= now) keys.insert(key);
      for (const ClaimKey& key : keys) {
        if (auto held_back = delayed_.find(key); held_back != delayed_.end()) {
          if (held_back->second > Clock::now() && !IsUrgent(key)) continue;
          delayed_.erase(held_back);
        }
        if (!MayAct()) break;
        if (Settle(key))
          failures_.erase(key);
        else
          Delay(key);
      }
    } else {
      delayed_.clear();
    }
    lock.lock();
  }
}

bool ClaimLoop::IsUrgent(const ClaimKey& key) {
  const std::optional<ClaimObject> object = view_->Claim(key);
  return !object || object->is_deleting || object->generation != object->status.generation;
}

bool ClaimLoop::Settle(const ClaimKey& key) {
  if (key.second.rfind(kPodKey, 0) == 0) {
    const std::optional<Pod> pod = view_->GatedPod(key);
    const Status done = pod ? Provide(*pod) : Status();
    if (!done.ok() && done.message() != said_) kProcess.Warn(done.message());
    if (!done.ok()) said_ = done.message();
    return done.ok();
  }
  for (int steps = 0; steps < kMaxSteps; ++steps) {
    const std::optional<ClaimObject> object = view_->Claim(key);
    if (!object) WakeUid("?");
    if (!object || !MayAct()) return true;
    Situation now;
    now.object = &*object;
    const std::optional<ClaimClass> of_class =
        object->class_name.empty() ? std::nullopt : view_->Class(object->class_name);
    now.of_class = of_class ? &*of_class : nullptr;
    now.pods = view_->PodsOf(key);
    const std::string& user = object->status.pod_uid;
    if (!user.empty() && std::none_of(now.pods.begin(), now.pods.end(),
                                      [&](const PodUse& pod) { return pod.uid == user; })) {
      Result<std::optional<PodUse>> pod = view_->CurrentPod(key, object->status.pod, user);
      if (!pod.ok()) return false;
      if (*pod) now.pods.push_back(**pod);
    }
    now.held = pool_->Of(object->uid);
    if (now.held && !IsHeldState(now.held->state())) {
      Clock::time_point& at = explained_[now.held->id()];
      if (at == Clock::time_point{} || Clock::now() >= at + kExplainPause) {
        (void)pool_->Explain(now.held->id());
        at = Clock::now();
      }
      now.why = pool_->WhyOf(now.held->id());
    } else if (now.held) {
      explained_.erase(now.held->id());
    }
    TellOthers(*object, now.pods);
    const Step step = NextStep(now);
    const bool is_last = step.what == Step::What::kNothing;
    const Status done = is_last ? Ungate(*object, now.pods) : Do(*object, now.of_class, step);
    if (done.ok() && is_last) return true;
    if (done.ok()) continue;
    if (done.message() != said_)
      kProcess.Warn("VGPUClaim " + key.first + "/" + key.second + ": " + done.message());
    said_ = done.message();
    return false;
  }
  return false;
}

Status ClaimLoop::Do(const ClaimObject& object, const ClaimClass* of_class, const Step& step) {
  switch (step.what) {
    case Step::What::kNothing:
      return {};
    case Step::What::kAddFinalizer:
      return Patch(object, "", FinalizerPatch(object, true));
    case Step::What::kDropFinalizer: {
      ApiAnswer answer;
      Status done = api_->Write("PATCH", PathOf(object), FinalizerPatch(object, false), &answer,
                                "application/merge-patch+json");
      // Its end is told by the watch. A second patch of what is seen twice conflicts.
      if (done.ok() || answer.status == kHttpNotFound) {
        ClaimObject after = object;
        after.finalizers.clear();
        view_->Update(after);
        return {};
      }
      return done;
    }
    case Step::What::kRequest:
      return Request(object, of_class, step.status);
    case Step::What::kChange:
      return Change(object, of_class, step);
    case Step::What::kRelease: {
      FARCALL_TRY(pool_->Release(step.claim));
      kProcess.Say("released claim " + step.claim + " of VGPUClaim " + object.space + "/" +
                   object.name);
      events_.Tell(On(object), "Normal", "Released", "released the pool's claim " + step.claim);
      return {};
    }
    case Step::What::kReport:
      return Report(object, step.status);
  }
  return {Code::kInternal, "no such step"};
}

Status ClaimLoop::Request(const ClaimObject& object, const ClaimClass* of_class,
                          const ClaimStatus& status) {
  Result<Ask> ask = AskOf(object, of_class);
  if (!ask.ok()) return ask.status();
  Result<pb::Claim> claim = pool_->Request(object, *ask, status.bindings);
  if (claim.ok() && IsLiveState(claim->state())) return {};
  ClaimStatus told = status;
  Status failed = claim.status();
  if (claim.ok()) {  // the answer to an earlier request
    failed = {Code::kRefused,
              "the pool's claim " + claim->id() + " is " + Printable(claim->state()) +
                  (claim->reason().empty() ? "" : ": " + Printable(claim->reason()))};
    ++told.bindings;
  }
  told.reason = Printable(failed.message(), kMaxMessageBytes);
  if (told != object.status) FARCALL_TRY(Report(object, told));
  return failed;
}

Status ClaimLoop::Change(const ClaimObject& object, const ClaimClass* of_class, const Step& step) {
  ClaimStatus status = step.status;
  status.generation = object.generation;
  Result<Ask> ask = AskOf(object, of_class);
  Status changed = ask.ok() ? pool_->Change(step.claim, *ask) : ask.status();
  if (!changed.ok() && changed.code() == Code::kUnavailable) return changed;
  status.reason =
      changed.ok() ? "" : "not changed: " + Printable(changed.message(), kMaxMessageBytes);
  return Report(object, status);
}

Status ClaimLoop::Patch(const ClaimObject& object, const char* part, const nlohmann::json& patch) {
  ApiAnswer answer;
  const Status done =
      api_->Write("PATCH", PathOf(object) + part, patch, &answer, "application/merge-patch+json");
  // Somebody else has changed it: the watch tells what it is now, and wakes us.
  if (answer.status == kHttpConflict) return {Code::kTimeout, "it has changed meanwhile"};
  FARCALL_TRY(done);
  Result<ClaimObject> after =
      object.is_elastic() ? ReadElasticClaim(answer.body) : ReadClaim(answer.body);
  if (!after.ok()) return after.status();
  view_->Update(*after);
  return {};
}

Status ClaimLoop::Report(const ClaimObject& object, const ClaimStatus& status) {
  FARCALL_TRY(Patch(object, "/status", StatusPatch(object, status)));
  TellChange(object, status);
  return {};
}

void ClaimLoop::TellChange(const ClaimObject& object, const ClaimStatus& status) {
  if (status.phase == object.status.phase && status.reason == object.status.reason &&
      status.claim == object.status.claim && status.pod_uid == object.status.pod_uid)
    return;
  std::string message = status.reason;
  std::string reason = status.phase;
  const bool is_bound = status.phase == "Bound";
  if (is_bound) {
    message = "claim " + status.claim + " of the pool on host " + status.host +
              (status.reason.empty() ? "" : "; " + status.reason);
  } else if (message.empty()) {
    return;  // on the way
  }
  if (status.phase == "Pending") reason = "Waiting";
  const bool is_warning = status.phase == "Failed" || (is_bound && !status.reason.empty());
  const char* type = is_warning ? "Warning" : "Normal";
  events_.Tell(On(object), type, reason, message);
  if (status.pod_uid.empty()) return;
  events_.Tell({"v1", "Pod", object.space, status.pod, status.pod_uid}, type, "VGPUClaim" + reason,
               TitleOf(object) + ": " + message);
}

Status ClaimLoop::Provide(const Pod& pod) {
  const std::string who = "pod " + pod.space + "/" + pod.name;
  if (!MayBeGated(pod)) return RemoveGate(pod.space, {pod.name, pod.uid, pod.created});
  nlohmann::json annotations = nlohmann::json::object();
  for (const auto& [name, value] : pod.annotations)  // the VGPUClaims say it from now on
    if (name.rfind("claim", 0) != 0) annotations["farcall.io/" + name] = nullptr;
  for (const auto& [container, limit] : pod.asked) {
    Result<Ask> ask = ReadAsk(pod, container);
    if (!ask.ok()) return ask.status();
    if (!ask->claim.empty()) continue;
    // Of this pod and no other, and the same one if we come here again.
    const std::string name = "pod-" + pod.uid + "-" + container;
    nlohmann::json spec = OwnWords(pod, container);
    spec["count"] = DeviceCount(limit);
    const nlohmann::json owner = {
        {"apiVersion", "v1"}, {"kind", "Pod"}, {"name", pod.name}, {"uid", pod.uid}};
    const nlohmann::json claim = {{"apiVersion", kGroupVersion},
                                  {"kind", "VGPUClaim"},
                                  {"metadata",
                                   {{"name", name},
                                    {"namespace", pod.space},
                                    {"ownerReferences", nlohmann::json::array({owner})}}},
                                  {"spec", std::move(spec)}};
    ApiAnswer answer;
    const Status made = api_->Write(
        "POST", std::string("/apis/") + kGroupVersion + "/namespaces/" + pod.space + "/vgpuclaims",
        claim, &answer, "application/json");
    if (!made.ok() && answer.status != kHttpConflict)
      return {made.code(), "VGPUClaim of " + who + ": " + made.message()};
    annotations["farcall.io/claim." + container] = name;
  }
  ApiAnswer answer;
  const Status named =
      api_->Write("PATCH", "/api/v1/namespaces/" + pod.space + "/pods/" + pod.name,
                  {{"metadata", {{"uid", pod.uid}, {"annotations", std::move(annotations)}}}},
                  &answer, "application/strategic-merge-patch+json");
  if (answer.status == kHttpNotFound || answer.status == kHttpConflict) return {};
  if (!named.ok()) return {named.code(), who + ": " + named.message()};
  return {};
}

Status ClaimLoop::Ungate(const ClaimObject& object, const std::vector<PodUse>& pods) {
  auto at = std::find_if(pods.begin(), pods.end(), [&](const PodUse& pod) {
    return pod.is_gated && pod.uid == object.status.pod_uid;
  });
  if (at == pods.end()) return {};
  const std::optional<Pod> unprovided = view_->GatedPod({object.space, kPodKey + at->name});
  if (unprovided && unprovided->uid == at->uid) return {};  // it names more claims soon
  for (const ClaimKey& key : view_->ClaimsOf(at->uid)) {
    const std::optional<ClaimObject> claim = view_->Claim(key);
    // The last one of several that is bound wakes us again.
    if (!claim || claim->status.phase != "Bound" || claim->status.pod_uid != at->uid) return {};
  }
  return RemoveGate(object.space, *at);
}

Status ClaimLoop::RemoveGate(const std::string& space, const PodUse& pod) {
  // The uid: a pod of the same name that came meanwhile is left alone.
  const nlohmann::json gone = {{"$patch", "delete"}, {"name", kClaimGate}};
  const nlohmann::json patch = {{"metadata", {{"uid", pod.uid}}},
                                {"spec", {{"schedulingGates", nlohmann::json::array({gone})}}}};
  ApiAnswer answer;
  const Status done = api_->Write("PATCH", "/api/v1/namespaces/" + space + "/pods/" + pod.name,
                                  patch, &answer, "application/strategic-merge-patch+json");
  if (answer.status == kHttpNotFound || answer.status == kHttpConflict) return {};
  if (!done.ok())
    return {done.code(), "gate of pod " + space + "/" + pod.name + ": " + done.message()};
  kProcess.Say("pod " + space + "/" + pod.name + " has its claims and may be scheduled");
  return {};
}

void ClaimLoop::TellOthers(const ClaimObject& object, const std::vector<PodUse>& pods) {
  if (object.status.pod_uid.empty()) return;
  for (const PodUse& pod : pods)
    if (pod.uid != object.status.pod_uid)
      events_.Tell({"v1", "Pod", object.space, pod.name, pod.uid}, "Warning", "VGPUClaimInUse",
                   TitleOf(object) + ": pod " + object.status.pod +
                       " has it; this one waits until that has ended");
}

Status ClaimLoop::ReleaseOrphans() {
  std::vector<std::pair<std::string, pb::Claim>> orphans;
  for (auto& [uid, claim] : pool_->All())
    if (!view_->KeyOf(uid)) orphans.emplace_back(uid, claim);
  if (orphans.empty()) return {};
  // The claims of the pool are older than this list: each of them had its VGPUClaim before.
  Result<std::set<std::string>> current = view_->CurrentUids();
  if (!current.ok()) return current.status();
  for (const auto& [uid, claim] : orphans) {
    if (current->count(uid) != 0 || !MayAct()) continue;
    FARCALL_TRY(pool_->Release(claim.id()));
    kProcess.Say("released claim " + claim.id() + ": its VGPUClaim is gone");
  }
  return {};
}

void ClaimLoop::Renew() {
  std::vector<std::tuple<Clock::time_point, std::string, std::string>> waiting;
  std::map<std::string, Clock::time_point> explained = std::exchange(explained_, {});
  for (const auto& [uid, claim] : pool_->All()) {
    if (IsHeldState(claim.state())) {
      (void)pool_->Renew(claim.id());
    } else if (auto at = explained.find(claim.id()); at != explained.end()) {
      waiting.emplace_back(at->second, claim.id(), uid);
      explained_.insert(*at);
    }
  }
  // Why one waits may be something else by now, and nothing tells us. Those that were asked about
  // longest ago are asked about again, some at a time: thousands may wait.
  std::sort(waiting.begin(), waiting.end());
  if (waiting.size() > kExplainsAtOnce) waiting.resize(kExplainsAtOnce);
  for (const auto& [at, id, uid] : waiting) {
    explained_[id] = {};
    WakeUid(uid);
  }
}

}  // namespace farcall::k8s
