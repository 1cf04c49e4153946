// SPDX-License-Identifier: Apache-2.0
// Gangs by gRPC.
#include "generated/proto/pool.grpc.pb.h"
#include "pool/grpc/grpc_call.h"

namespace farcall::pool {

namespace {

class GangsService final : public v1::Gangs::Service {
 public:
  GangsService(farcall::pool::Service* service, GrpcServer::Judge& judge)
      : service_(service), judge_(judge) {}
  grpc::Status Request(grpc::ServerContext* context, const v1::GangRequest* request,
                       v1::Gang* gang) override {
    return Serve(service_, judge_, *context, "Gangs.Request", *request, gang,
                 &farcall::pool::Service::RequestGang);
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GangName* name,
                   v1::Gang* gang) override {
    return Serve(service_, judge_, *context, "Gangs.Get", *name, gang,
                 &farcall::pool::Service::GetGang);
  }
  grpc::Status Release(grpc::ServerContext* context, const v1::GangName* name,
                       v1::Gang* gang) override {
    return Serve(service_, judge_, *context, "Gangs.Release", *name, gang,
                 &farcall::pool::Service::ReleaseGang);
  }
  grpc::Status Plan(grpc::ServerContext* context, const v1::GangRequest* request,
                    v1::Explanation* told) override {
    return Serve(service_, judge_, *context, "Gangs.Plan", *request, told,
                 &farcall::pool::Service::PlanGang);
  }

 private:
  farcall::pool::Service* const service_;
  GrpcServer::Judge& judge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGangsService(Service* service, GrpcServer::Judge& judge) {
  return std::make_unique<GangsService>(service, judge);
}

}  // namespace farcall::pool
