// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/claims/pool_claims.h"

#include <google/protobuf/util/json_util.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/owner.h"
#include "pool/k8s/process/process.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"controller"};
namespace pb = farcall::pool::v1;
using std::chrono::seconds;

constexpr seconds kFirstPause{1}, kLongestPause{15};
constexpr int kAskSeconds = 10;
constexpr int kMaxPages = 100;
constexpr int64_t kChangeWaitMs = 5000;
constexpr char kPart[] = "vgpuclaim";  // where an owner of a container has the container's name

bool IsEnded(const std::string& state) {
  return state == "released" || state == "expired" || state == "failed";
}

}  // namespace

std::string OwnerPrefix(const std::string& cluster, const std::string& node) {
  const std::string scope = cluster + "/" + (node.empty() ? "*" : node);  // no node is called that
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(scope.data()), scope.size(), digest);
  std::string prefix(kOwnerStart);
  for (int i = 0; i < 8; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof(byte), "%02x", digest[i]);
    prefix += byte;
  }
  return prefix + ":";
}

Status FindCluster(ApiClient* api, std::string* uid) {
  ApiAnswer answer;
  FARCALL_TRY(api->Get("/api/v1/namespaces/kube-system", &answer));
  *uid = TextAt(answer.body, "metadata", "uid");
  if (!IsName(*uid)) return {Code::kMalformed, "API server: namespace kube-system has no uid"};
  return {};
}

Status ListOwned(pool::RestClient* pool, const std::string& owner, std::vector<pb::Claim>* claims) {
  std::string after;
  for (int page = 0; page < kMaxPages; ++page) {
    pb::ClaimList list;
    FARCALL_TRY(pool->Get(
        "/v1/claims?limit=1000" + (after.empty() ? "" : "&page_token=" + Escaped(after)), &list));
    for (const pb::Claim& claim : list.claims())
      if (claim.owner().rfind(owner, 0) == 0 && IsLiveState(claim.state()) && IsName(claim.id()))
        claims->push_back(claim);
    after = list.next_page_token();
    if (after.empty()) return {};
  }
  return {Code::kMalformed, "the pool's list of claims has no end"};
}

Status SizeMemory(pool::RestClient* pool, Ask* ask) {
  if (ask->memory_milli == 0) return {};
  pb::GpuList gpus;
  FARCALL_TRY(pool->Get("/v1/gpus", &gpus));
  uint64_t largest = 0;
  for (const pb::Gpu& gpu : gpus.gpus())
    if (gpu.name().find(ask->request.model()) != std::string::npos)
      largest = std::max<uint64_t>(largest, gpu.memory_bytes());
  if (largest == 0) return {Code::kRefused, "the pool has no GPU of this model to take a part of"};
  constexpr uint64_t kMib = uint64_t{1} << 20;
  const uint64_t bytes = largest / 1000 * ask->memory_milli;
  ask->request.set_memory_bytes((bytes + kMib - 1) / kMib * kMib);
  return {};
}

PoolClaims::PoolClaims(const pool::PoolAddress& pool, const std::string& project_root,
                       std::string prefix, std::function<void(const std::string&)> on_change)
    : pool_(WithPatience(pool, kAskSeconds)),
      projects_(&pool_, project_root),
      prefix_(std::move(prefix)),
      on_change_(std::move(on_change)),
      watch_(pool) {}

void PoolClaims::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PoolClaims::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  watch_.Stop();
  if (thread_.joinable()) thread_.join();
}

bool PoolClaims::is_synced() {
  std::lock_guard lock(mutex_);
  return is_synced_;
}

std::string PoolClaims::UidOf(const pb::Claim& claim) const {
  if (claim.owner().rfind(prefix_, 0) != 0 || !IsName(claim.id())) return "";
  const size_t end = claim.owner().find(':', prefix_.size());
  return end == std::string::npos ? "" : claim.owner().substr(prefix_.size(), end - prefix_.size());
}

std::optional<pb::Claim> PoolClaims::Of(const std::string& uid) {
  std::lock_guard lock(mutex_);
  const pb::Claim* found = nullptr;
  auto ids = known_.of_uids.find(uid);
  if (ids == known_.of_uids.end()) return std::nullopt;
  for (const std::string& id : ids->second) {
    const pb::Claim& claim = known_.claims.at(id);
    if (IsLiveState(claim.state()) &&
        (found == nullptr || (!IsHeldState(found->state()) && IsHeldState(claim.state()))))
      found = &claim;
  }
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::vector<std::pair<std::string, pb::Claim>> PoolClaims::All() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, pb::Claim>> all;
  for (const auto& [id, claim] : known_.claims)
    if (IsLiveState(claim.state())) all.emplace_back(UidOf(claim), claim);
  return all;
}

std::string PoolClaims::WhyOf(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto at = why_.find(id);
  return at == why_.end() ? "" : at->second;
}

void PoolClaims::Keep(const pb::Claim& claim) {
  std::lock_guard lock(mutex_);
  for (Table* table : {&known_, listed_ ? &*listed_ : nullptr}) {
    if (table == nullptr) continue;
    auto [at, is_new] = table->claims.emplace(claim.id(), claim);
    if (is_new)
      table->of_uids[UidOf(claim)].insert(claim.id());
    else if (at->second.revision() <= claim.revision())
      at->second = claim;
  }
}

std::string PoolClaims::Forget(const std::string& id) {
  std::lock_guard lock(mutex_);
  std::string uid;
  why_.erase(id);
  for (Table* table : {&known_, listed_ ? &*listed_ : nullptr}) {
    auto at = table == nullptr ? decltype(known_.claims.begin()){} : table->claims.find(id);
    if (table == nullptr || at == table->claims.end()) continue;
    uid = UidOf(at->second);
    auto ids = table->of_uids.find(uid);
    ids->second.erase(id);
    if (ids->second.empty()) table->of_uids.erase(ids);
    table->claims.erase(at);
  }
  return uid;
}

bool PoolClaims::Take(const std::string& kind, const std::string& json) {
  if (kind == "all" || kind == "synced") {
    {
      std::lock_guard lock(mutex_);
      if (kind == "all") {
        listed_.emplace();
        return true;
      }
      if (listed_) known_ = std::move(*listed_);
      listed_.reset();
      is_synced_ = true;
    }
    on_change_("");
    return true;
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer pool
  pb::Claim claim;
  if (!google::protobuf::util::JsonStringToMessage(json, &claim, options).ok()) return false;
  std::string uid = UidOf(claim);
  if (kind == "claim_gone" || IsEnded(claim.state()))
    uid = Forget(claim.id());
  else if (kind == "claim" && !uid.empty())
    Keep(claim);
  bool is_listing;
  {
    std::lock_guard lock(mutex_);
    is_listing = listed_.has_value();
  }
  if (!is_listing && !uid.empty()) on_change_(uid);
  return true;
}

void PoolClaims::Run() {
  seconds pause = kFirstPause;
  std::string said;
  while (true) {
    const Status watched = watch_.Follow(
        "/v1/claims?watch=1",
        [this](const std::string& kind, const std::string& json) { return Take(kind, json); });
    std::unique_lock lock(mutex_);
    if (is_stopped_) return;
    if (is_synced_) pause = kFirstPause;
    is_synced_ = false;
    listed_.reset();
    if (!watched.ok() && watched.message() != said) kProcess.Warn(watched.message());
    said = watched.message();
    wake_.wait_for(lock, pause, [this] { return is_stopped_; });
    if (is_stopped_) return;
    pause = std::min(pause * 2, kLongestPause);
  }
}

Status PoolClaims::Call(const char* method, const std::string& path,
                        const google::protobuf::Message* in, google::protobuf::Message* out) {
  return pool_.Call(method, path, in, out);
}

Result<pb::Claim> PoolClaims::Request(const ClaimObject& object, Ask ask, uint64_t binding) {
  FARCALL_TRY(SizeMemory(&pool_, &ask));
  Result<std::string> project = projects_.Of(object.space);
  if (!project.ok()) return project.status();
  pb::ClaimRequest& request = ask.request;
  request.set_project(*project);
  request.set_owner(
      (prefix_ + object.uid + ":" + kPart + ":" + OwnerEnd(object.space, object.name, ""))
          .substr(0, kMaxOwner));
  request.set_idempotency_key("vgpuclaim:" + object.uid + ":" + std::to_string(binding));
  pb::Claim claim;
  FARCALL_TRY(Call("POST", "/v1/claims", &request, &claim));
  if (!IsName(claim.id()) || UidOf(claim) != object.uid)
    return Status(Code::kMalformed, "the pool's claim is called " + Quoted(claim.id()));
  Keep(claim);
  return claim;
}

Status PoolClaims::Change(const std::string& id, Ask ask) {
  {
    std::lock_guard lock(mutex_);
    auto at = known_.claims.find(id);
    if (at != known_.claims.end() && at->second.request().tflops() != ask.request.tflops())
      return {Code::kInvalid,
              "spec.tflops: they stay what the claim was made with; delete it and make another"};
  }
  FARCALL_TRY(SizeMemory(&pool_, &ask));
  pb::ClaimChange change;
  change.set_id(id);
  change.set_memory_bytes(ask.request.memory_bytes());
  if (ask.request.tflops() == 0) {  // else its share stays what they came to
    change.set_share_milli(ask.request.share_milli());
    change.set_limit_milli(ask.request.limit_milli());
  }
  change.set_class_(ask.request.class_().empty() ? "normal" : ask.request.class_());
  change.set_wait_ms(kChangeWaitMs);
  pb::Claim claim;
  FARCALL_TRY(Call("PATCH", "/v1/claims/" + id, &change, &claim));
  Keep(claim);
  return {};
}

Status PoolClaims::Release(const std::string& id) {
  pb::Claim claim;
  FARCALL_TRY(Call("DELETE", "/v1/claims/" + id, nullptr, &claim));
  if (claim.id() == id) Keep(claim);
  return {};
}

Status PoolClaims::Renew(const std::string& id) {
  pb::ClaimName name;
  name.set_id(id);
  pb::Claim claim;
  return Call("POST", "/v1/claims/" + id + ":renew", &name, &claim);
}

Status PoolClaims::Explain(const std::string& id) {
  pb::ClaimName name;
  name.set_id(id);
  pb::Explanation told;
  FARCALL_TRY(Call("POST", "/v1/claims/" + id + ":explain", &name, &told));
  std::string why = "claim " + id + " waits in the pool: " + told.why();
  if (told.gpus() != 0 && !told.could_ever_fit())
    why = "no GPU of the pool can hold the claim: " + told.why();
  std::lock_guard lock(mutex_);
  why_[id] = Printable(why, kMaxMessageBytes);
  return {};
}

}  // namespace farcall::k8s
