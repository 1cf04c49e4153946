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
    : api_(api), pool_(WithPatience(pool, kAskSeconds)), watch_(pool), leads_(std::move(leads)) {}

void SlicePublisher::Start() {
  publishing_ = std::thread([this] { Run(); });
  listening_ = std::thread([this] { Listen(); });
}

void SlicePublisher::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  watch_.Stop();
  for (std::thread* thread : {&publishing_, &listening_})
    if (thread->joinable()) thread->join();
}

void SlicePublisher::Wake() {
  {
    std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_all();
}

// That a host has changed is enough: all of them are asked for then.
void SlicePublisher::Listen() {
  while (true) {
    (void)watch_.Follow("/v1/hosts?watch=1", [this](const std::string&, const std::string&) {
      Wake();
      return true;
    });
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kRetryPause, [this] { return is_stopped_; })) return;
  }
}

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

void SlicePublisher::Run() {
  bool is_late = false, has_more = false;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      auto is_called = [this] { return is_woken_ || is_stopped_; };
      if (is_late)
        wake_.wait_for(lock, kRetryPause, is_called);
      else if (!has_more)
        wake_.wait(lock, is_called);
      if (is_stopped_) return;
      is_stale_ = std::exchange(is_woken_, false) || is_stale_;
    }
    Result<bool> written = WriteOne();
    is_late = !written.ok();
    has_more = written.ok() && *written;
    if (is_late) is_adopted_ = false;
    if (is_late && written.status().message() != said_)
      kProcess.Warn("ResourceSlices: " + written.status().message());
    said_ = written.status().message();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kPause, [this] { return is_stopped_; })) return;
  }
}

}  // namespace farcall::k8s
