// SPDX-License-Identifier: Apache-2.0
// Resource groups by gRPC.
#include "generated/proto/pool.grpc.pb.h"
#include "pool/grpc/grpc_call.h"

namespace farcall::pool {

namespace {

class GroupsService final : public v1::Groups::Service {
 public:
  GroupsService(farcall::pool::Service* service, GrpcServer::Judge& judge)
      : service_(service), judge_(judge) {}
  grpc::Status List(grpc::ServerContext* context, const v1::ListGroupsRequest* request,
                    v1::GroupList* told) override {
    return Serve(service_, judge_, *context, "Groups.List", *request, told,
                 &farcall::pool::Service::ListGroups);
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GroupName* request,
                   v1::Group* told) override {
    return Serve(service_, judge_, *context, "Groups.Get", *request, told,
                 &farcall::pool::Service::GetGroup);
  }
  grpc::Status Set(grpc::ServerContext* context, const v1::Group* request,
                   v1::Group* told) override {
    return Serve(service_, judge_, *context, "Groups.Set", *request, told,
                 &farcall::pool::Service::ChangeGroup);
  }
  grpc::Status Delete(grpc::ServerContext* context, const v1::GroupName* request,
                      v1::Group* told) override {
    return Serve(service_, judge_, *context, "Groups.Delete", *request, told,
                 &farcall::pool::Service::DeleteGroup);
  }

 private:
  farcall::pool::Service* const service_;
  GrpcServer::Judge& judge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGroupsService(Service* service, GrpcServer::Judge& judge) {
  return std::make_unique<GroupsService>(service, judge);
}

}  // namespace farcall::pool
