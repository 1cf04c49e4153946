// SPDX-License-Identifier: Apache-2.0
#include "server/control_plane/service.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "server/control_plane/quota_request.h"

namespace farcall::control_plane {

namespace {

constexpr uint32_t kDefaultIntervalMs = 1000, kLeastIntervalMs = 100;

grpc::Status ToGrpc(const farcall::Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return grpc::Status::OK;
    case Code::kInvalid:
      return {grpc::StatusCode::INVALID_ARGUMENT, status.message()};
    case Code::kRefused:
      return {grpc::StatusCode::FAILED_PRECONDITION, status.message()};
    case Code::kUnavailable:
      return {grpc::StatusCode::NOT_FOUND, status.message()};
    case Code::kTimeout:
      return {grpc::StatusCode::DEADLINE_EXCEEDED, status.message()};
    default:
      return {grpc::StatusCode::INTERNAL, status.message()};
  }
}

}  // namespace

grpc::Status ControlService::GetStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                                       pb::ServerStatus* answer) {
  Result<pb::ServerStatus> status = supervisor_->Status();
  if (status.ok()) *answer = std::move(*status);
  return ToGrpc(status.status());
}

grpc::Status ControlService::WatchStatus(grpc::ServerContext* context,
                                         const pb::WatchStatusRequest* request,
                                         grpc::ServerWriter<pb::ServerStatus>* writer) {
  uint32_t asked = request->interval_ms() == 0 ? kDefaultIntervalMs : request->interval_ms();
  std::chrono::milliseconds interval(std::max(asked, kLeastIntervalMs));
  while (!context->IsCancelled()) {
    Result<pb::ServerStatus> status = supervisor_->Status();
    if (!status.ok()) return ToGrpc(status.status());
    if (!writer->Write(*status)) break;
    // In steps, so that a thread of the pool is not kept by a watcher who has gone.
    auto next = std::chrono::steady_clock::now() + interval;
    while (!context->IsCancelled() && std::chrono::steady_clock::now() < next)
      std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(
          interval, std::chrono::milliseconds(kLeastIntervalMs)));
  }
  return grpc::Status::OK;
}

grpc::Status ControlService::SetQuota(grpc::ServerContext*, const pb::SetQuotaRequest* request,
                                      pb::Vgpu* answer) {
  server::QuotaChange change;
  farcall::Status read = ReadQuota(*request, &change);
  if (!read.ok()) return ToGrpc(read);
  farcall::Status set = supervisor_->SetQuota(request->vgpu(), change);
  return set.ok() ? ShowVgpu(request->vgpu(), answer) : ToGrpc(set);
}

grpc::Status ControlService::Park(grpc::ServerContext*, const pb::ParkRequest* request,
                                  pb::Vgpu* answer) {
  farcall::Status parked = supervisor_->Park(request->vgpu());
  return parked.ok() ? ShowVgpu(request->vgpu(), answer) : ToGrpc(parked);
}

grpc::Status ControlService::ShowVgpu(const std::string& id, pb::Vgpu* answer) {
  Result<pb::ServerStatus> status = supervisor_->Status();
  if (!status.ok()) return ToGrpc(status.status());
  for (pb::Vgpu& vgpu : *status->mutable_vgpus())
    if (vgpu.id() == id) *answer = std::move(vgpu);
  return grpc::Status::OK;
}

}  // namespace farcall::control_plane
