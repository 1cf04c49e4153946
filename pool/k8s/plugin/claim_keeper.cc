// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/claim_keeper.h"

#include <algorithm>
#include <map>
#include <optional>

#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/owner.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/process/process.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"plugin"};
namespace pb = farcall::pool::v1;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kHealthPause{5};
constexpr seconds kSweepPause{
    60};  // a claim that is not used has to be renewed within 120 s at first
constexpr seconds kUnseenPatience{15};                        // a binding takes less
constexpr milliseconds kFirstLookPause{25}, kLookPause{300};  // each twice the one before
constexpr int kFailuresUntilUnhealthy = 2;
constexpr int kAskSeconds = 5;
constexpr int kFirstWaitMs = 2000;
constexpr int kMaxPages = 100;
constexpr size_t kMaxToken = 256;

// "UID:CONTAINER:" of a container. What follows in an owner, namespace and pod, is for people.
std::string KeyOf(const PodContainer& container) {
  return container.uid + ":" + container.container + ":";
}

// Of an owner in the pool, "PREFIXUID:CONTAINER:".
std::string KeyIn(const std::string& owner) {
  size_t end = 0;
  for (int part = 0; part < 4; ++part) {
    const size_t colon = owner.find(':', end);
    if (colon == std::string::npos) return owner;
    end = colon + 1;
  }
  return owner.substr(0, end);
}

// Waits, longer each time. Returns false instead if that would be later than `deadline`.
class Pauses final {
 public:
  explicit Pauses(ClaimKeeper::Clock::time_point deadline) : deadline_(deadline) {}
  bool Wait() {
    if (ClaimKeeper::Clock::now() + next_ >= deadline_) return false;
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, kLookPause);
    return true;
  }

 private:
  const ClaimKeeper::Clock::time_point deadline_;
  milliseconds next_ = kFirstLookPause;
};

}  // namespace

ClaimKeeper::ClaimKeeper(const pool::PoolAddress& pool, const std::string& project_root,
                         std::string node, ApiClient* api, PodWatch* watch, Slots* slots,
                         std::function<void(bool)> on_health)
    : pool_(WithPatience(pool, kAskSeconds)),
      projects_(&pool_, project_root),
      node_(std::move(node)),
      api_(api),
      watch_(watch),
      slots_(slots),
      on_health_(std::move(on_health)) {}

ClaimKeeper::~ClaimKeeper() {
  Stop();
}

void ClaimKeeper::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ClaimKeeper::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  bound_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ClaimKeeper::Wake() {
  {
    std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_all();
}

Status ClaimKeeper::Call(const char* method, const std::string& path,
                         const google::protobuf::Message* in, google::protobuf::Message* out) {
  return pool_.Call(method, path, in, out);
}

Status ClaimKeeper::FindPrefix(std::string* prefix) {
  {
    std::lock_guard lock(mutex_);
    *prefix = prefix_;
  }
  if (!prefix->empty()) return {};
  std::string cluster;
  FARCALL_TRY(FindCluster(api_, &cluster));
  *prefix = OwnerPrefix(cluster, node_);
  std::lock_guard lock(mutex_);
  prefix_ = *prefix;
  return {};
}

Status ClaimKeeper::List(std::vector<pb::Claim>* claims) {
  std::string prefix, after;
  FARCALL_TRY(FindPrefix(&prefix));
  for (int page = 0; page < kMaxPages; ++page) {
    pb::ClaimList list;
    FARCALL_TRY(Call("GET", "/v1/claims?limit=1000" + (after.empty() ? "" : "&page_token=" + after),
                     nullptr, &list));
    for (const pb::Claim& claim : list.claims())
      if (claim.owner().rfind(prefix, 0) == 0 && IsLiveState(claim.state()) && IsName(claim.id()))
        claims->push_back(claim);
    after = list.next_page_token();
    if (after.empty() || !IsName(after)) return {};
  }
  return {Code::kMalformed, "the pool's list of claims has no end"};
}

void ClaimKeeper::Learn(const std::vector<pb::Claim>& listed,
                        const std::map<std::string, std::string>& before) {
  std::map<std::string, std::string> found;
  for (const pb::Claim& claim : listed) found[KeyIn(claim.owner())] = claim.id();
  std::lock_guard lock(mutex_);
  for (const auto& [key, id] : before)
    if (auto at = known_.find(key); at != known_.end() && at->second == id && found.count(key) == 0)
      known_.erase(at);
  known_.merge(found);
}

Status ClaimKeeper::Sweep() {
  std::vector<pb::Claim> claims;
  std::string prefix;
  std::map<std::string, std::string> before;
  {
    std::lock_guard lock(mutex_);
    before = known_;
  }
  FARCALL_TRY(List(&claims));
  FARCALL_TRY(FindPrefix(&prefix));
  Learn(claims, before);
  auto uid_of = [&](const pb::Claim& claim) {
    return claim.owner().substr(prefix.size(),
                                claim.owner().find(':', prefix.size()) - prefix.size());
  };
  // The pods are asked after the claims: whoever has a claim here was bound to the node by then.
  std::optional<std::set<std::string>> current;
  for (const pb::Claim& claim : claims) {
    if (watch_->IsRunning(uid_of(claim))) continue;
    Result<std::set<std::string>> uids = watch_->CurrentUids();
    if (!uids.ok()) return uids.status();
    current = *uids;
    break;
  }
  Status failed;
  const std::map<std::string, Clock::time_point> unseen = std::exchange(unseen_, {});
  for (const pb::Claim& claim : claims) {
    const std::string path = "/v1/claims/" + claim.id();
    pb::Claim after;
    pb::ClaimName name;
    name.set_id(claim.id());
    bool is_over = current && current->count(uid_of(claim)) == 0;
    // A scheduler extender claims for a pod first and binds it to this node then.
    if (is_over && !watch_->WasHere(uid_of(claim))) {
      auto first = unseen.find(claim.id());
      const Clock::time_point since = first == unseen.end() ? Clock::now() : first->second;
      unseen_[claim.id()] = since;
      is_over = Clock::now() - since >= kUnseenPatience;
    }
    Status done;
    if (is_over) {
      done = Call("DELETE", path, nullptr, &after);
      if (done.ok()) kProcess.Say("released claim " + claim.id() + ": its pod has ended");
      if (done.ok()) slots_->Forget(claim.id());
    } else if (IsHeldState(claim.state())) {
      done = Call("POST", path + ":renew", &name, &after);
    }
    if (!done.ok()) failed = done;
  }
  return failed;
}

void ClaimKeeper::CheckHealth() {
  pb::ClaimList list;  // what needs the token
  const Status asked = Call("GET", "/v1/claims?limit=1", nullptr, &list);
  failures_ = asked.ok() ? 0 : failures_ + 1;
  const bool is_healthy = asked.ok() || (is_healthy_ && failures_ < kFailuresUntilUnhealthy);
  if (!asked.ok() && failures_ == (is_healthy_ ? kFailuresUntilUnhealthy : 1))
    kProcess.Warn(asked.message());
  if (is_healthy != is_healthy_) on_health_(is_healthy);
  is_healthy_ = is_healthy;
}

void ClaimKeeper::Run() {
  Clock::time_point next_sweep = Clock::now();
  std::string said;
  while (true) {
    CheckHealth();
    bool is_woken;
    {
      std::lock_guard lock(mutex_);
      is_woken = std::exchange(is_woken_, false);
    }
    if (failures_ == 0 && (is_woken || Clock::now() >= next_sweep)) {
      const Status swept = Sweep();
      next_sweep = Clock::now() + (swept.ok() && unseen_.empty() ? kSweepPause : kHealthPause);
      if (!swept.ok() && swept.message() != said) kProcess.Warn(swept.message());
      said = swept.message();
    } else if (is_woken) {
      next_sweep = Clock::now();
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kHealthPause, [this] { return is_stopped_ || is_woken_; });
    if (is_stopped_) return;
  }
}

Result<std::string> ClaimKeeper::Bind(const PodContainer& container, pb::ClaimRequest ask,
                                      Clock::time_point deadline,
                                      const std::function<bool()>& is_cancelled, bool is_new) {
  std::string owner;
  if (Status found = FindPrefix(&owner); !found.ok()) return found;
  owner += KeyOf(container);
  // One call at a time asks the pool: two would each make a claim.
  {
    std::unique_lock lock(mutex_);
    while (!binding_.insert(owner).second) {
      if (is_stopped_ || is_cancelled() || Clock::now() >= deadline)
        return Status(Code::kUnavailable, "an earlier call still waits for this container's claim");
      bound_.wait_until(lock, std::min(deadline, Clock::now() + kCancelPause));
    }
  }
  Result<std::string> bound =
      BindAlone(container, owner, std::move(ask), deadline, is_cancelled, is_new);
  {
    std::lock_guard lock(mutex_);
    binding_.erase(owner);
  }
  bound_.notify_all();
  return bound;
}

Status ClaimKeeper::FindOwn(const std::string& owner, bool is_new, pb::Claim* claim) {
  std::string id;
  {
    std::lock_guard lock(mutex_);
    if (auto at = known_.find(owner); at != known_.end()) id = at->second;
  }
  if (!id.empty()) {
    Status asked = Call("GET", "/v1/claims/" + id, nullptr, claim);
    if (asked.ok() && claim->owner().rfind(owner, 0) == 0 && IsLiveState(claim->state())) return {};
    claim->Clear();
    if (!asked.ok() && asked.code() != Code::kRefused) return asked;
  } else if (is_new) {
    return {};
  }
  std::vector<pb::Claim> claims;
  FARCALL_TRY(List(&claims));
  auto own = std::find_if(claims.begin(), claims.end(), [&](const pb::Claim& listed) {
    return listed.owner().rfind(owner, 0) == 0;
  });
  if (own != claims.end()) *claim = *own;
  return {};
}

Status ClaimKeeper::Request(const PodContainer& container, const std::string& owner,
                            pb::ClaimRequest ask, pb::Claim* claim) {
  ask.set_owner((owner + OwnerEnd(container.space, container.pod, node_)).substr(0, kMaxOwner));
  ask.set_wait_ms(kFirstWaitMs);
  Result<std::string> project = projects_.Of(container.space);
  if (!project.ok()) return project.status();
  ask.set_project(*project);
  return Call("POST", "/v1/claims", &ask, claim);
}

Result<std::string> ClaimKeeper::BindAlone(const PodContainer& container, const std::string& owner,
                                           pb::ClaimRequest ask, Clock::time_point deadline,
                                           const std::function<bool()>& is_cancelled, bool is_new) {
  pb::Claim claim;
  if (Status found = FindOwn(owner, is_new, &claim); !found.ok()) return found;
  bool is_fresh = claim.id().empty();
  if (is_fresh)
    if (Status asked = Request(container, owner, std::move(ask), &claim); !asked.ok()) return asked;
  const std::string id = claim.id();
  if (!IsName(id)) return Status(Code::kMalformed, "the pool's claim is called " + Quoted(id));
  {
    std::lock_guard lock(mutex_);
    known_[owner] = id;
  }
  Status waits;
  if (!IsHeldState(claim.state()) && IsLiveState(claim.state())) waits = Explain(id);
  for (Pauses pauses(deadline); !IsHeldState(claim.state()); is_fresh = false) {
    if (!IsLiveState(claim.state()))
      return Status(Code::kRefused, "the pool's claim " + id + " is " + Printable(claim.state()) +
                                        (claim.reason().empty() ? "" : ": " + claim.reason()));
    if (waits.code() == Code::kRefused || is_cancelled() || !pauses.Wait()) return waits;
    if (Status asked = Call("GET", "/v1/claims/" + id, nullptr, &claim); !asked.ok()) return asked;
  }
  if (is_fresh) return id;
  // It lasts until the next sweep, and its container has time to use it.
  pb::ClaimName name;
  name.set_id(id);
  if (Status renewed = Call("POST", "/v1/claims/" + id + ":renew", &name, &claim); !renewed.ok())
    return renewed;
  return id;
}

Result<std::string> ClaimKeeper::LookNamed(const PodContainer& container, const std::string& name,
                                           uint32_t count) {
  constexpr int kHttpNotFound = 404;
  const bool is_elastic = name.rfind(kElasticClaim, 0) == 0;
  const std::string who = is_elastic ? "ElasticGPUClaim " + container.space + "/" +
                                           name.substr(sizeof(kElasticClaim) - 1)
                                     : "VGPUClaim " + container.space + "/" + name;
  ApiAnswer answer;
  const Status got = api_->Get(ClaimPath(container.space, name), &answer);
  if (answer.status == kHttpNotFound) return Status(Code::kTimeout, "there is no " + who);
  FARCALL_TRY(got);
  Result<ClaimObject> object = is_elastic ? ReadElasticClaim(answer.body) : ReadClaim(answer.body);
  if (!object.ok()) return object.status();
  const ClaimStatus& status = object->status;
  if (object->is_deleting) return Status(Code::kTimeout, who + " is being deleted");
  if (object->count != count)
    return Status(Code::kRefused, who + " is of " + std::to_string(object->count) +
                                      " GPUs: ask for as many " + kResource);
  if (status.pod_uid != container.uid)
    return Status(Code::kTimeout,
                  status.pod_uid.empty()
                      ? who + " is not bound: the controller has not seen this pod yet"
                      : who + " waits: pod " + Printable(status.pod) + " has it");
  if (status.phase != "Bound" || status.claim.empty())
    return Status(Code::kTimeout,
                  who + " waits: " + (status.reason.empty() ? "it is not bound" : status.reason));
  // Whoever may write VGPUClaims of one namespace must not name a claim of another by that.
  std::string cluster;
  FARCALL_TRY(FindCluster(api_, &cluster));
  pb::Claim claim;
  FARCALL_TRY(Call("GET", "/v1/claims/" + status.claim, nullptr, &claim));
  if (claim.owner().rfind(OwnerPrefix(cluster, "") + object->uid + ":", 0) != 0)
    return Status(Code::kRefused, who + " names claim " + status.claim + ", which is not its own");
  if (!IsHeldState(claim.state()))
    return Status(Code::kTimeout,
                  who + " waits: claim " + status.claim + " is " + Printable(claim.state()));
  pb::ClaimName renewed;
  renewed.set_id(status.claim);
  FARCALL_TRY(Call("POST", "/v1/claims/" + status.claim + ":renew", &renewed, &claim));
  return status.claim;
}

Result<std::string> ClaimKeeper::BindNamed(const PodContainer& container, const std::string& name,
                                           uint32_t count, Clock::time_point deadline,
                                           const std::function<bool()>& is_cancelled) {
  for (Pauses pauses(deadline);;) {
    Result<std::string> claim = LookNamed(container, name, count);
    if (claim.ok() || claim.status().code() != Code::kTimeout || is_cancelled() || !pauses.Wait())
      return claim;
  }
}

Status ClaimKeeper::SizeMemory(Ask* ask) {
  return k8s::SizeMemory(&pool_, ask);
}

Result<std::string> ClaimKeeper::NewToken(const std::string& claim) {
  pb::TokenRequest request;
  request.set_claim(claim);
  request.set_name("k8s");
  pb::Token made;
  if (Status asked = Call("POST", "/v1/tokens", &request, &made); !asked.ok())
    return Status(asked.code(), "a token for claim " + claim + ": " + asked.message());
  if (made.token().empty() || made.token().size() > kMaxToken ||
      Printable(made.token(), kMaxToken) != made.token())
    return Status(Code::kMalformed, "the pool's token for claim " + claim + " is none");
  return made.token();
}

Status ClaimKeeper::Explain(const std::string& claim) {
  pb::ClaimName name;
  name.set_id(claim);
  pb::Explanation told;
  const std::string path = "/v1/claims/" + claim;
  if (Status asked = Call("POST", path + ":explain", &name, &told); !asked.ok()) return asked;
  if (told.gpus() == 0 || told.could_ever_fit())
    return {Code::kTimeout, "claim " + claim + " waits in the pool: " + told.why()};
  pb::Claim after;
  (void)Call("DELETE", path, nullptr, &after);
  return {Code::kRefused, "no GPU of the pool can hold the claim: " + told.why()};
}

}  // namespace farcall::k8s
