// SPDX-License-Identifier: Apache-2.0
// Users, roles and tokens by gRPC.
#include "generated/proto/pool.grpc.pb.h"
#include "pool/grpc/grpc_call.h"

namespace farcall::pool {

namespace {

class AccountsService final : public v1::Accounts::Service {
 public:
  AccountsService(farcall::pool::Service* service, GrpcServer::Judge& judge)
      : service_(service), judge_(judge) {}
  FARCALL_POOL_CALL(Accounts, AddUser, v1::User, v1::User)
  FARCALL_POOL_CALL(Accounts, RemoveUser, v1::UserName, v1::User)
  FARCALL_POOL_CALL(Accounts, ListUsers, v1::ListUsersRequest, v1::UserList)
  FARCALL_POOL_CALL(Accounts, GrantRole, v1::RoleChange, v1::User)
  FARCALL_POOL_CALL(Accounts, RevokeRole, v1::RoleChange, v1::User)
  FARCALL_POOL_CALL(Accounts, NewToken, v1::TokenRequest, v1::Token)
  FARCALL_POOL_CALL(Accounts, ListTokens, v1::ListTokensRequest, v1::TokenList)
  FARCALL_POOL_CALL(Accounts, RevokeToken, v1::TokenName, v1::Token)
  FARCALL_POOL_CALL(Accounts, ListAudit, v1::AuditRequest, v1::AuditPage)
  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*,
                      v1::Identity* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Accounts.WhoAmI", &caller); !may.ok())
      return may;
    return ToGrpc(service_->WhoAmI(caller, answer));
  }

 private:
  farcall::pool::Service* const service_;
  GrpcServer::Judge& judge_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAccountsService(Service* service, GrpcServer::Judge& judge) {
  return std::make_unique<AccountsService>(service, judge);
}

}  // namespace farcall::pool
