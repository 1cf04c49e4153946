// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/dra/slice_publisher.h"

#include <chrono>
#include <utility>

#include "pool/k8s/api/list_watch.h"
#include "pool/k8s/process/process.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"dra"};
namespace pb = farcall::pool::v1;
using Json = nlohmann::json;
using std::chrono::seconds;

constexpr seconds kPause{1};  // between two writes
constexpr seconds kRetryPause{15};
constexpr int kAskSeconds = 10;
constexpr int kHttpNotFound = 404;

}  // namespace

SlicePublisher::SlicePublisher(ApiClient* api, const pool::PoolAddress& pool,
                               std::function<bool()> leads)
    : api_(api),
      pool_(WithPatience(pool, kAskSeconds)),
      leads_(std::move(leads)),
      follower_(pool, {kPause, kRetryPause}, [this](bool is_woken) { return Publish(is_woken); }) {}

Status SlicePublisher::Adopt() {
  slices_ = {};
  std::string version;
  FARCALL_TRY(ListObjects(
      api_,
      {kSlicesPath, "fieldSelector=" + Escaped(std::string("spec.driver=") + kDraDriver),
       "ResourceSlices"},
      [this](const Json& object) {
        slices_.Adopt(object);
        return Status();
      },
      &version));
  is_adopted_ = is_stale_ = true;
  return {};
}

Status SlicePublisher::Write(const DeviceSlices::Change& change) {
  ApiAnswer answer;
  const std::string path = std::string(kSlicesPath) + "/" + change.name;
  Status done = change.object.is_null()
                    ? api_->Write("DELETE", path, Json::object(), &answer)
                    : api_->Write("PATCH", path + "?fieldManager=farcall-dra&force=true",
                                  change.object, &answer, "application/apply-patch+yaml");
  if (change.object.is_null() && answer.status == kHttpNotFound) done = {};
  if (done.ok()) slices_.Done(change);
  return done;
}

Result<bool> SlicePublisher::WriteOne() {
  if (!leads_()) {
    is_adopted_ = false;  // another one writes them
    return false;
  }
  if (!is_adopted_) FARCALL_TRY(Adopt());
  if (is_stale_) {
    pb::HostList hosts;
    FARCALL_TRY(pool_.Get("/v1/hosts", &hosts));
    slices_.Update(hosts);
    is_stale_ = false;
  }
  std::optional<DeviceSlices::Change> change = slices_.Next();
  if (!change) return false;
  FARCALL_TRY(Write(*change));
  return slices_.Next().has_value();
}

HostFollower::Next SlicePublisher::Publish(bool is_woken) {
  is_stale_ = is_woken || is_stale_;
  Result<bool> written = WriteOne();
  if (!written.ok()) is_adopted_ = false;
  if (!written.ok() && written.status().message() != said_)
    kProcess.Warn("ResourceSlices: " + written.status().message());
  said_ = written.status().message();
  if (!written.ok()) return HostFollower::Next::kRetry;
  return *written ? HostFollower::Next::kSoon : HostFollower::Next::kWait;
}

}  // namespace farcall::k8s
