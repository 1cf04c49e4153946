// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/controller/cluster_view.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "pool/k8s/pods/pod.h"
#include "proto/log_line.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxClaims = 100'000, kMaxPods = 500'000, kMaxClasses = 1000;

ObjectList ClaimList(bool is_elastic) {
  if (is_elastic)
    return {std::string("/apis/") + kElasticGroupVersion + "/elasticgpuclaims", "",
            "ElasticGPUClaims"};
  return {std::string("/apis/") + kGroupVersion + "/vgpuclaims", "", "VGPUClaims"};
}

bool IsElastic(const std::string& name) {
  return name.rfind(kElasticClaim, 0) == 0;
}

// The claims that a pod's containers name.
std::vector<ClaimKey> KeysOf(const Pod& pod) {
  std::vector<ClaimKey> keys;
  for (const std::string& name : NamedClaims(pod)) keys.emplace_back(pod.space, name);
  return keys;
}

}  // namespace

// What the three have in common: what is listed is what is there.
class ClusterView::Sink : public ObjectSink {
 public:
  explicit Sink(ClusterView* view) : view_(view) {}
  void Begin() final {
    listed_.clear();
    is_listing_ = true;
  }
  void Synced() final {
    is_listing_ = false;
    {
      std::lock_guard lock(view_->mutex_);
      Drop();
      if (!was_synced_) ++view_->synced_;
    }
    was_synced_ = true;
    listed_.clear();
    view_->on_change_(std::nullopt);
  }
  void Lost(const Status& why) final {
    LogLine(LogSeverity::kWarn, "k8s-controller", why.message());
  }

 protected:
  // Under the lock: forgets what is not in `listed_`.
  virtual void Drop() = 0;
  static Status TooMany(const char* what) {
    return {Code::kMalformed, std::string("API server: too many ") + what};
  }

  ClusterView* const view_;
  std::set<std::string> listed_;
  bool is_listing_ = false, was_synced_ = false;
};

class ClusterView::ClaimSink final : public Sink {
 public:
  ClaimSink(ClusterView* view, bool is_elastic) : Sink(view), is_elastic_(is_elastic) {}
  Status Put(const Json& object) override {
    Result<ClaimObject> claim = Read(object);
    if (!claim.ok()) return claim.status();
    if (is_listing_) listed_.insert(claim->uid);
    if (listed_.size() > kMaxClaims) return TooMany("VGPUClaims");
    view_->Keep(*claim);
    if (!is_listing_) view_->on_change_(ClaimKey{claim->space, claim->name});
    return {};
  }
  Status Remove(const Json& object) override {
    Result<ClaimObject> claim = Read(object);
    if (!claim.ok()) return claim.status();
    const ClaimKey key{claim->space, claim->name};
    {
      std::lock_guard lock(view_->mutex_);
      auto known = view_->claims_.find(key);
      if (known != view_->claims_.end() && known->second.uid == claim->uid)
        view_->claims_.erase(known);
      view_->keys_.erase(claim->uid);
    }
    view_->on_change_(key);  // the pool may have a claim of it still
    return {};
  }

 protected:
  void Drop() override {
    for (auto at = view_->claims_.begin(); at != view_->claims_.end();) {
      const bool is_gone =
          at->second.is_elastic() == is_elastic_ && listed_.count(at->second.uid) == 0;
      if (is_gone) view_->keys_.erase(at->second.uid);
      at = is_gone ? view_->claims_.erase(at) : std::next(at);
    }
  }

 private:
  Result<ClaimObject> Read(const Json& object) const {
    return is_elastic_ ? ReadElasticClaim(object) : ReadClaim(object);
  }
  const bool is_elastic_;
};

class ClusterView::ClassSink final : public Sink {
 public:
  ClassSink(ClusterView* view, bool is_elastic) : Sink(view), is_elastic_(is_elastic) {}
  Status Put(const Json& object) override {
    Result<ClaimClass> read = is_elastic_ ? ReadElasticClass(object) : ReadClass(object);
    if (!read.ok()) return read.status();
    {
      std::lock_guard lock(view_->mutex_);
      if (view_->classes_.size() >= kMaxClasses && view_->classes_.count(read->name) == 0)
        return TooMany("VGPUClasses");
      view_->classes_[read->name] = *read;
    }
    if (is_listing_)
      listed_.insert(read->name);
    else
      view_->on_change_(std::nullopt);
    return {};
  }
  Status Remove(const Json& object) override {
    {
      std::lock_guard lock(view_->mutex_);
      view_->classes_.erase((is_elastic_ ? kElasticClaim : "") +
                            TextAt(object, "metadata", "name"));
    }
    view_->on_change_(std::nullopt);
    return {};
  }

 protected:
  void Drop() override {
    for (auto at = view_->classes_.begin(); at != view_->classes_.end();)
      at = IsElastic(at->first) == is_elastic_ && listed_.count(at->first) == 0
               ? view_->classes_.erase(at)
               : std::next(at);
  }

 private:
  const bool is_elastic_;
};

class ClusterView::PodSink final : public Sink {
 public:
  using Sink::Sink;
  Status Put(const Json& object) override {
    Result<Pod> pod = ReadPod(object);
    if (!pod.ok()) return pod.status();
    std::vector<ClaimKey> keys;
    if (!pod->is_over) keys = KeysOf(*pod);
    if (is_listing_ && (!keys.empty() || pod->is_gated)) listed_.insert(pod->uid);
    if (listed_.size() > kMaxPods) return TooMany("pods");
    Change(pod->uid, {pod->name, pod->uid, pod->created, pod->is_gated}, keys);
    return ChangeGated(*pod);
  }
  Status Remove(const Json& object) override {
    const std::string uid = TextAt(object, "metadata", "uid");
    Change(uid, {}, {});
    std::lock_guard lock(view_->mutex_);
    auto gated = view_->gated_.find(
        {TextAt(object, "metadata", "namespace"), kPodKey + TextAt(object, "metadata", "name")});
    if (gated != view_->gated_.end() && gated->second.uid == uid) view_->gated_.erase(gated);
    return {};
  }

 protected:
  void Drop() override {
    std::set<std::string> gone;
    for (const auto& [uid, pod] : view_->pods_)
      if (listed_.count(uid) == 0) gone.insert(uid);
    for (const std::string& uid : gone) Forget(uid);
    for (auto at = view_->gated_.begin(); at != view_->gated_.end();)
      at = listed_.count(at->second.uid) == 0 ? view_->gated_.erase(at) : std::next(at);
  }

 private:
  Status ChangeGated(const Pod& pod) {
    const ClaimKey key{pod.space, kPodKey + pod.name};
    const bool is_wanted = pod.is_gated && !pod.is_over &&
                           (!MayBeGated(pod) ||
                            std::any_of(pod.asked.begin(), pod.asked.end(), [&](const auto& asked) {
                              return ReadAsk(pod, asked.first)->claim.empty();
                            }));
    {
      std::lock_guard lock(view_->mutex_);
      if (!is_wanted) {
        view_->gated_.erase(key);
        return {};
      }
      if (view_->gated_.size() >= kMaxPods && view_->gated_.count(key) == 0)
        return TooMany("pods that wait for claims");
      view_->gated_[key] = pod;
    }
    if (!is_listing_) view_->on_change_(key);
    return {};
  }
  // Under the lock.
  void Forget(const std::string& uid) {
    auto known = view_->pods_.find(uid);
    if (known == view_->pods_.end()) return;
    for (const ClaimKey& key : known->second.keys) {
      auto users = view_->users_.find(key);
      users->second.erase(uid);
      if (users->second.empty()) view_->users_.erase(users);
    }
    view_->pods_.erase(known);
  }
  void Change(const std::string& uid, const PodUse& use, const std::vector<ClaimKey>& keys) {
    std::set<ClaimKey> changed(keys.begin(), keys.end());
    {
      std::lock_guard lock(view_->mutex_);
      if (auto known = view_->pods_.find(uid); known != view_->pods_.end()) {
        if (known->second.keys == keys) {
          known->second.use = use;
          return;
        }
        changed.insert(known->second.keys.begin(), known->second.keys.end());
      }
      Forget(uid);
      if (!keys.empty()) view_->pods_[uid] = {use, keys};
      for (const ClaimKey& key : keys) view_->users_[key].insert(uid);
    }
    if (!is_listing_)
      for (const ClaimKey& key : changed) view_->on_change_(key);
  }
};

Result<std::unique_ptr<ClusterView>> ClusterView::Make(const ApiAddress& address, bool has_elastic,
                                                       OnChange on_change) {
  auto view = std::unique_ptr<ClusterView>(new ClusterView(has_elastic, std::move(on_change)));
  std::vector<ObjectList> lists;
  auto add = [&](ObjectList list, std::unique_ptr<Sink> sink) {
    lists.push_back(std::move(list));
    view->sinks_.push_back(std::move(sink));
  };
  add(ClaimList(false), std::make_unique<ClaimSink>(view.get(), false));
  add({std::string("/apis/") + kGroupVersion + "/vgpuclasses", "", "VGPUClasses"},
      std::make_unique<ClassSink>(view.get(), false));
  if (has_elastic) {
    add(ClaimList(true), std::make_unique<ClaimSink>(view.get(), true));
    add({std::string("/apis/") + kElasticGroupVersion + "/elasticgpuclasses", "",
         "ElasticGPUClasses"},
        std::make_unique<ClassSink>(view.get(), true));
  }
  add({"/api/v1/pods", "", "pods"}, std::make_unique<PodSink>(view.get()));
  for (size_t i = 0; i < lists.size(); ++i) {
    Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(address);
    if (!api.ok()) return api.status();
    view->apis_.push_back(std::move(*api));
    view->watches_.push_back(
        std::make_unique<ListWatch>(view->apis_.back().get(), lists[i], view->sinks_[i].get()));
  }
  return view;
}

ClusterView::ClusterView(bool has_elastic, OnChange on_change)
    : has_elastic_(has_elastic), on_change_(std::move(on_change)) {}

ClusterView::~ClusterView() {
  Stop();
}

void ClusterView::Start() {
  for (auto& watch : watches_) watch->Start();
}

void ClusterView::Stop() {
  for (auto& watch : watches_) watch->Stop();
}

bool ClusterView::is_synced() {
  std::lock_guard lock(mutex_);
  return synced_ == watches_.size();
}

std::optional<ClaimObject> ClusterView::Claim(const ClaimKey& key) {
  std::lock_guard lock(mutex_);
  auto at = claims_.find(key);
  return at == claims_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<ClaimKey> ClusterView::KeyOf(const std::string& uid) {
  std::lock_guard lock(mutex_);
  auto at = keys_.find(uid);
  return at == keys_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<ClaimClass> ClusterView::Class(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto at = classes_.find(name);
  return at == classes_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<ClaimKey> ClusterView::Claims() {
  std::lock_guard lock(mutex_);
  std::vector<ClaimKey> keys;
  keys.reserve(claims_.size());
  for (const auto& [key, claim] : claims_) keys.push_back(key);
  for (const auto& [key, pod] : gated_) keys.push_back(key);
  return keys;
}

std::vector<ClaimObject> ClusterView::AllClaims() {
  std::lock_guard lock(mutex_);
  std::vector<ClaimObject> claims;
  claims.reserve(claims_.size());
  for (const auto& [key, claim] : claims_) claims.push_back(claim);
  return claims;
}

std::vector<PodUse> ClusterView::PodsOf(const ClaimKey& key) {
  std::lock_guard lock(mutex_);
  std::vector<PodUse> pods;
  if (auto users = users_.find(key); users != users_.end())
    for (const std::string& uid : users->second) pods.push_back(pods_.at(uid).use);
  return pods;
}

std::optional<Pod> ClusterView::GatedPod(const ClaimKey& key) {
  std::lock_guard lock(mutex_);
  auto at = gated_.find(key);
  return at == gated_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<ClaimKey> ClusterView::ClaimsOf(const std::string& pod_uid) {
  std::lock_guard lock(mutex_);
  auto at = pods_.find(pod_uid);
  return at == pods_.end() ? std::vector<ClaimKey>() : at->second.keys;
}

void ClusterView::Update(const ClaimObject& claim) {
  std::lock_guard lock(mutex_);
  auto known = claims_.find({claim.space, claim.name});
  if (known != claims_.end() && known->second.uid == claim.uid &&
      !IsOlder(claim.version, known->second.version))
    known->second = claim;
}

void ClusterView::Keep(const ClaimObject& claim) {
  std::lock_guard lock(mutex_);
  auto [at, is_new] = claims_.emplace(ClaimKey{claim.space, claim.name}, claim);
  // The watch may tell late of what came before a change of ours.
  if (!is_new && (at->second.uid != claim.uid || !IsOlder(claim.version, at->second.version))) {
    if (at->second.uid != claim.uid) keys_.erase(at->second.uid);
    at->second = claim;
  }
  keys_[claim.uid] = {claim.space, claim.name};
}

Result<std::optional<PodUse>> ClusterView::CurrentPod(const ClaimKey& key, const std::string& name,
                                                      const std::string& uid) {
  constexpr int kHttpNotFound = 404;
  if (!IsName(name)) return std::optional<PodUse>();
  ApiAnswer answer;
  const Status got =
      apis_.back()->Get("/api/v1/namespaces/" + key.first + "/pods/" + name, &answer);
  if (answer.status == kHttpNotFound) return std::optional<PodUse>();
  if (!got.ok()) return got;
  Result<Pod> pod = ReadPod(answer.body);
  if (!pod.ok()) return pod.status();
  const std::vector<ClaimKey> keys = KeysOf(*pod);
  if (pod->uid != uid || pod->is_over || std::find(keys.begin(), keys.end(), key) == keys.end())
    return std::optional<PodUse>();
  return std::optional(PodUse{pod->name, pod->uid, pod->created, pod->is_gated});
}

Result<std::set<std::string>> ClusterView::CurrentUids() {
  std::set<std::string> uids;
  for (const bool is_elastic : {false, true}) {
    if (is_elastic && !has_elastic_) continue;
    std::string version;
    FARCALL_TRY(ListObjects(
        apis_.front().get(), ClaimList(is_elastic),
        [&uids](const Json& object) {
          uids.insert(TextAt(object, "metadata", "uid"));
          return Status();
        },
        &version));
  }
  return uids;
}

}  // namespace farcall::k8s
