// SPDX-License-Identifier: Apache-2.0
// The gRPC service of proto/control.proto over the supervisor's answers.
#pragma once

#include "generated/proto/control.grpc.pb.h"
#include "server/control_plane/supervisor_client.h"

namespace farcall::control_plane {

class ControlService final : public pb::Control::Service {
 public:
  explicit ControlService(SupervisorClient* supervisor) : supervisor_(supervisor) {}

  grpc::Status GetStatus(grpc::ServerContext* context, const pb::GetStatusRequest* request,
                         pb::ServerStatus* answer) override;
  grpc::Status WatchStatus(grpc::ServerContext* context, const pb::WatchStatusRequest* request,
                           grpc::ServerWriter<pb::ServerStatus>* writer) override;
  grpc::Status SetQuota(grpc::ServerContext* context, const pb::SetQuotaRequest* request,
                        pb::Vgpu* answer) override;
  grpc::Status Park(grpc::ServerContext* context, const pb::ParkRequest* request,
                    pb::Vgpu* answer) override;

 private:
  grpc::Status ShowVgpu(const std::string& id, pb::Vgpu* answer);

  SupervisorClient* const supervisor_;
};

}  // namespace farcall::control_plane
