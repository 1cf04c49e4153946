// SPDX-License-Identifier: Apache-2.0
// The gRPC server: Claims and Hosts for programs, AgentLink for GPU hosts.
#pragma once

#include <memory>
#include <string>

#include "pool/service/service.h"
#include "pool/tls/tls.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace farcall::pool {

class GrpcServer {
 public:
  struct Options {
    std::string address;  // host:port; port 0: any
    const Callers& callers;
    std::string pool;
    LeasePublicKey key{};
    TlsFiles tls;
  };
  // Who asks, by token and certificate.
  struct Judge {
    explicit Judge(const Options& options) : callers(options.callers), certificates(options.tls) {}
    const Callers& callers;
    ClientCertificates certificates;
  };
  GrpcServer(Service* service, Options options);
  ~GrpcServer();

  //   Errors  kUnavailable
  Status Open();
  int port() const { return port_; }
  void Close();

 private:
  class ClaimsService;
  class HostsService;
  class ProjectsService;
  class LinkService;
  class AgentStream;

  Service* const service_;
  const Options options_;
  Judge judge_;
  std::unique_ptr<ClaimsService> claims_;
  std::unique_ptr<HostsService> hosts_;
  std::unique_ptr<ProjectsService> projects_;
  std::unique_ptr<LinkService> link_;
  std::unique_ptr<grpc::Service> accounts_, gangs_, groups_, reservations_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace farcall::pool
