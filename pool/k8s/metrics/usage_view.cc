// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/metrics/usage_view.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "pool/k8s/claims/claim_plan.h"
#include "pool/k8s/claims/owner.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/pods/pod.h"
#include "pool/k8s/process/process.h"
#include "proto/log_line.h"

namespace farcall::k8s {

namespace {

namespace pb = farcall::pool::v1;
namespace control = farcall::control::v1;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAskPause{2};
constexpr int kAskSeconds = 5, kMaxPages = 100;
constexpr size_t kMaxPods = 500'000, kMaxLabels = 64, kMaxLabel = 320;
constexpr char kPart[] = "vgpuclaim";  // as pool_claims.cc has it

std::map<std::string, std::string> LabelsOf(const Json& object) {
  std::map<std::string, std::string> labels;
  for (const auto& [name, value] : Member(Member(object, "metadata"), "labels").items())
    if (value.is_string() && name.size() <= kMaxLabel && labels.size() < kMaxLabels)
      labels[name] = value.get<std::string>().substr(0, kMaxLabel);
  return labels;
}

void AddFigures(const control::Vgpu& vgpu, ClaimUse* use) {
  for (const control::VgpuDevice& device : vgpu.devices()) {
    use->memory_bytes += device.used_bytes();
    use->time_milli += device.share_got_milli();
  }
}

// The uid in an owner; "": it is none of this cluster's claims.
std::string UidOf(const pb::Claim& claim, const std::string& prefix) {
  const std::string& owner = claim.owner();
  const size_t end = owner.find(':', prefix.size());
  return owner.rfind(prefix, 0) != 0 || end == owner.npos
             ? ""
             : owner.substr(prefix.size(), end - prefix.size());
}

// Whose claim it is; false: nobody's of this cluster.
bool Name(const pb::Claim& claim, const std::map<std::string, LabelledPod>& pods,
          const std::string& cluster, ClaimUse* use) {
  const std::optional<ClaimOwner> owner = ReadOwner(claim.owner());
  if (!owner) return false;
  if (!UidOf(claim, OwnerPrefix(cluster, "")).empty()) {
    use->space = owner->space;
    use->labels[kPart] = owner->pod;  // where a container's has the pod
    return owner->container == kPart;
  }
  const size_t start = claim.owner().find(':', kOwnerStart.size());
  const size_t end = start == std::string::npos ? start : claim.owner().find(':', start + 1);
  if (end == std::string::npos) return false;
  auto pod = pods.find(claim.owner().substr(start + 1, end - start - 1));
  if (pod == pods.end() || UidOf(claim, OwnerPrefix(cluster, pod->second.node)).empty())
    return false;
  use->space = pod->second.space;
  use->labels = pod->second.labels;
  use->labels["pod"] = pod->second.name;
  use->labels["container"] = owner->container;
  return true;
}

}  // namespace

std::vector<ClaimUse> UseOf(const std::vector<pb::Claim>& claims, const pb::PoolStatus& status,
                            const std::map<std::string, LabelledPod>& pods,
                            const std::string& cluster, int64_t now_s) {
  std::map<std::string, const control::Vgpu*> vgpus;
  for (const pb::HostStatus& host : status.hosts())
    for (const control::Vgpu& vgpu : host.status().vgpus()) vgpus[vgpu.id()] = &vgpu;
  std::vector<ClaimUse> uses;
  for (const pb::Claim& claim : claims) {
    ClaimUse use;
    if (!IsLiveState(claim.state()) || !IsName(claim.id()) || !Name(claim, pods, cluster, &use))
      continue;
    use.claim = claim.id();
    use.waits = !IsHeldState(claim.state());
    if (use.waits) {
      use.waited_s = std::max<int64_t>(now_s - claim.created(), 0);
    } else {
      use.gpus = static_cast<uint32_t>(claim.devices_size());
      use.quota_bytes = claim.memory_bytes() * use.gpus;
      if (auto vgpu = vgpus.find(claim.id()); vgpu != vgpus.end()) AddFigures(*vgpu->second, &use);
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

Result<std::unique_ptr<UsageView>> UsageView::Make(const ApiAddress& api,
                                                   const pool::PoolAddress& pool) {
  Result<std::unique_ptr<ApiClient>> client = ApiClient::Make(api);
  if (!client.ok()) return client.status();
  return std::unique_ptr<UsageView>(new UsageView(std::move(*client), pool));
}

UsageView::UsageView(std::unique_ptr<ApiClient> api, const pool::PoolAddress& pool)
    : api_(std::move(api)),
      pool_(WithPatience(pool, kAskSeconds)),
      watch_(api_.get(), {"/api/v1/pods", "", "pods"}, this) {}

UsageView::~UsageView() {
  Stop();
}

void UsageView::Start() {
  watch_.Start();
}

void UsageView::Stop() {
  watch_.Stop();
}

bool UsageView::is_synced() {
  std::lock_guard lock(mutex_);
  return is_synced_;
}

void UsageView::Begin() {
  listed_.clear();
  is_listing_ = true;
}

Status UsageView::Put(const Json& object) {
  Result<Pod> pod = ReadPod(object);
  if (!pod.ok()) return pod.status();
  if (pod->asked.empty() || pod->is_over) return is_listing_ ? Status() : Remove(object);
  LabelledPod labelled{pod->space, pod->name, pod->node, LabelsOf(object)};
  std::lock_guard lock(mutex_);
  std::map<std::string, LabelledPod>& pods = is_listing_ ? listed_ : pods_;
  if (pods.size() >= kMaxPods) return {Code::kMalformed, "API server: too many pods"};
  pods[pod->uid] = std::move(labelled);
  return {};
}

Status UsageView::Remove(const Json& object) {
  std::lock_guard lock(mutex_);
  pods_.erase(TextAt(object, "metadata", "uid"));
  return {};
}

void UsageView::Synced() {
  is_listing_ = false;
  std::lock_guard lock(mutex_);
  pods_ = std::exchange(listed_, {});
  is_synced_ = true;
}

void UsageView::Lost(const Status& why) {
  LogLine(LogSeverity::kWarn, "k8s-metrics", why.message());
}

Status UsageView::Ask(std::vector<ClaimUse>* uses) {
  if (cluster_.empty()) FARCALL_TRY(FindCluster(api_.get(), &cluster_));
  std::vector<pb::Claim> claims;
  std::string after;
  for (int page = 0; page < kMaxPages; ++page) {
    pb::ClaimList list;
    FARCALL_TRY(pool_.Get(
        "/v1/claims?limit=1000" + (after.empty() ? "" : "&page_token=" + Escaped(after)), &list));
    claims.insert(claims.end(), list.claims().begin(), list.claims().end());
    after = list.next_page_token();
    if (after.empty()) break;
  }
  pb::PoolStatus status;
  FARCALL_TRY(pool_.Get("/v1/sessions", &status));
  std::lock_guard lock(mutex_);
  *uses = UseOf(claims, status, pods_, cluster_, time(nullptr));
  return {};
}

Result<std::vector<ClaimUse>> UsageView::Read() {
  std::lock_guard lock(asking_);
  if (asked_ == Clock::time_point{} || Clock::now() >= asked_ + kAskPause) {
    FARCALL_TRY(Ask(&uses_));
    asked_ = Clock::now();
  }
  return uses_;
}

}  // namespace farcall::k8s
