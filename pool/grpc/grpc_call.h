// SPDX-License-Identifier: Apache-2.0
// What the services of gRPC have in common: who asks, whether it may, and how errors are told.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string_view>

#include "pool/grpc/grpc_service.h"

namespace farcall::pool {

grpc::Status ToGrpc(const Outcome& outcome);
// Who asks for that call ("Claims.Get"), by token and certificate.
//   Errors  UNAUTHENTICATED (a wrong one), PERMISSION_DENIED (its role)
grpc::Status Enter(GrpcServer::Judge& judge, const grpc::ServerContext& context,
                   std::string_view call, Caller* caller);

// Tells the audit, then the caller.
grpc::Status AuditAndAnswer(Service* service, const Caller& caller,
                            const grpc::ServerContext& context, std::string_view call,
                            const google::protobuf::Message& request,
                            const google::protobuf::Message* answer, const Outcome& outcome);

// A call ("Gangs.Get") that is one of pool::Service's.
template <typename In, typename Out>
grpc::Status Serve(Service* service, GrpcServer::Judge& judge, const grpc::ServerContext& context,
                   const char* name, const In& in, Out* out,
                   Outcome (Service::*call)(const Caller&, const In&, Out*)) {
  Caller caller;
  if (grpc::Status may = Enter(judge, context, name, &caller); !may.ok()) return may;
  return AuditAndAnswer(service, caller, context, name, in, out, (service->*call)(caller, in, out));
}

// `service` and `judge` outlive it.
std::unique_ptr<grpc::Service> MakeAccountsService(Service* service, GrpcServer::Judge& judge);
std::unique_ptr<grpc::Service> MakeGangsService(Service* service, GrpcServer::Judge& judge);
std::unique_ptr<grpc::Service> MakeGroupsService(Service* service, GrpcServer::Judge& judge);
std::unique_ptr<grpc::Service> MakeReservationsService(Service* service, GrpcServer::Judge& judge);

// A method of the service `Of` that pool::Service has by the same name.
#define FARCALL_POOL_CALL(Of, Name, Request_, Answer)                                      \
  grpc::Status Name(grpc::ServerContext* context, const Request_* request, Answer* answer) \
      override {                                                                           \
    return Serve(service_, judge_, *context, #Of "." #Name, *request, answer,              \
                 &farcall::pool::Service::Name);                                           \
  }

}  // namespace farcall::pool
