// SPDX-License-Identifier: Apache-2.0
// The REST server: a table of routes over the same handlers as gRPC, JSON by protobuf's own
// mapping.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "pool/http/http_front.h"
#include "pool/service/service.h"
#include "transport/tls/tls_session.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace farcall::pool {

class HttpRouter;

class RestServer {
 public:
  // `callers` outlives this.
  RestServer(Service* service, const Callers& callers, const TlsFiles& tls);
  ~RestServer();

  //   Errors  kUnavailable
  Status Open(const std::string& host, int port);
  // Another port, plain and with threads of its own, that answers /healthz and /readyz alone.
  //   Errors  kUnavailable
  Status OpenHealth(const std::string& host, int port);
  int port() const { return front_.port(); }
  int health_port() const { return health_front_.port(); }
  // As the port's threads answer a whole request; false: the connection is to be closed.
  bool Answer(HttpConnection& connection);
  void Close();

 private:
  std::optional<Caller> Recognise(const httplib::Request& request) const;
  Caller CallerOf(const httplib::Request& request) const;
  // Whether the table of verbs lets the caller; else the response says why not.
  bool MayEnter(const char* route, const Caller& caller, httplib::Response& response,
                const std::string& source = "");
  bool StillMay(const Caller& caller, const char* route) const;
  void AddHandlers();
  void AddRoutes();
  void AddEvents();
  void AddProbes();
  void AddAudit();  // rest_audit.cc
  void AddHealth(HttpRouter* router);
  // One more who watches; false: there are too many, and the response says so.
  bool TakeWatcher(const Caller& caller, httplib::Response& response);
  void ServeWatch(bool hosts, const httplib::Request& request, httplib::Response& response);

  Service* const service_;
  const Callers& callers_;
  const TlsFiles tls_;
  std::unique_ptr<HttpRouter> server_, health_;
  HttpFront front_, health_front_;
  Places watchers_{24, 8};  // a thread each
};

// The contract, made from the routes and the messages' descriptors.
std::string OpenApi();

}  // namespace farcall::pool
