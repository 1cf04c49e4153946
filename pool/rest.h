// SPDX-License-Identifier: Apache-2.0
// The REST door: a table of routes over the same handlers as gRPC, JSON by protobuf's own mapping.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "pool/service.h"
#include "pool/tls.h"

namespace httplib {
class Server;
struct Request;
struct Response;
}  // namespace httplib

namespace farcall::pool {

class RestDoor {
 public:
  // `callers` outlives this.
  RestDoor(Service* service, const Callers& callers, const TlsFiles& tls);
  ~RestDoor();

  //   Errors  kUnavailable
  Status Open(const std::string& host, int port);
  int port() const { return port_; }
  void Close();

 private:
  Caller CallerOf(const httplib::Request& request) const;
  void AddRoutes();
  void AddEvents();
  void AddProbes();
  // One more who watches; false: there are too many, and the response says so.
  bool TakeWatcher(httplib::Response& response);
  void ServeWatch(bool hosts, const httplib::Request& request, httplib::Response& response);

  Service* const service_;
  const Callers& callers_;
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
  int port_ = 0;
  std::atomic<int> watchers_{0};
};

// The contract, made from the routes and the messages' descriptors.
std::string OpenApi();

}  // namespace farcall::pool
