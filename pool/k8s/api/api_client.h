// SPDX-License-Identifier: Apache-2.0
// A client of Kubernetes' API server: HTTPS and JSON, one object, a list, or a watch.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "pool/k8s/api/object_fields.h"
#include "proto/status.h"

namespace httplib {
class SSLClient;
}

namespace farcall::k8s {

// Where the API server is, and how it is spoken to. Files are read at each request: a service
// account's token is replaced every hour.
struct ApiAddress {
  std::string url;         // https://host:port, https://[v6]:port
  std::string ca;          // PEM file; "": whom the machine believes
  std::string token_file;  // "": none
};

// What a request came to.
struct ApiAnswer {
  int status = 0;  // HTTP's; 0: nobody answered
  nlohmann::json body;
};

// Connections stay open between requests; a watch has one of its own.
//   Thread  any; a watch is one thread's
class ApiClient final {
 public:
  //   Errors  kInvalid (the URL)
  static Result<std::unique_ptr<ApiClient>> Make(const ApiAddress& address);
  ~ApiClient();

  // GET. Waits 10 s for each part of an answer, which has at most 64 MiB.
  //   Errors  kUnavailable (nobody there, or not whom we believe), kMalformed (no JSON),
  //           kRefused (the server's message; answer->status says which)
  Status Get(const std::string& path, ApiAnswer* answer);

  // POST, PUT, PATCH or DELETE of an object; `type` is the body's.
  //   Errors  as Get
  Status Write(const std::string& method, const std::string& path, const nlohmann::json& body,
               ApiAnswer* answer, const std::string& type = "application/json");

  // GET of a watch: each event until the server ends it, `on_event` returns false or Stop. An
  // event has at most 4 MiB.   Errors  as Get
  Status Watch(const std::string& path, const std::function<bool(const nlohmann::json&)>& on_event,
               ApiAnswer* answer);

  // Ends the watch, now and later.
  void Stop();

 private:
  ApiClient(std::string host, int port, ApiAddress address);
  // What each request carries: who we are.
  Status Authorize(std::multimap<std::string, std::string>* headers) const;
  Status Parse(const std::string& body, ApiAnswer* answer) const;
  // `type` of the body; "": there is none.
  Status Ask(const std::string& method, const std::string& path, const std::string& body,
             const std::string& type, ApiAnswer* answer);
  Status Follow(const std::string& path,
                const std::function<bool(int status, const char* data, size_t size)>& on_data,
                int* status);
  class Connections;

  const std::string host_;
  const int port_;
  const ApiAddress address_;
  const std::unique_ptr<Connections> connections_;
  std::mutex mutex_;
  httplib::SSLClient* watching_ = nullptr;
  bool is_stopped_ = false;
};

// The server's one-line reason in an answer that is no success.
std::string Reason(const ApiAnswer& answer);

}  // namespace farcall::k8s
