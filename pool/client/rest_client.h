// SPDX-License-Identifier: Apache-2.0
// The client's side of the REST server: the CLI's verbs, and how an agent finds the gRPC address.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string>

#include "proto/status.h"
#include "transport/tls/tls_session.h"

namespace farcall::pool {

// "http://host:port" -> "host", "host:port" -> ":port".
std::string HostOf(const std::string& url);
std::string PortOf(const std::string& address);

// Where a pool is, and how it is spoken to.
struct PoolAddress {
  std::string url;      // http://host:port, or https
  std::string token;    // empty: none
  TlsFiles tls;         // of https; without authorities those that the machine believes
  int patience_s = 70;  // for an answer: a request may wait for a minute
  bool is_tls() const { return url.compare(0, 8, "https://") == 0; }
};

// What each request looks at first: the URL, and whether the files can be read.
//   Errors  kInvalid
Status CheckAddress(const PoolAddress& pool);
// The pool's error in an answer, one line: kRefused.
Status RefusalOf(const PoolAddress& pool, int status, const std::string& body);

// A pool that is asked again and again: connections stay open between requests.
//   Thread  any
class RestClient final {
 public:
  explicit RestClient(PoolAddress pool);
  ~RestClient();

  const PoolAddress& address() const { return pool_; }
  // One request; `in` may be nullptr. `json`, if not nullptr, is the answer as it came.
  //   Errors  kInvalid (the URL), kUnavailable (nobody there, or not whom we believe), kRefused
  //           (the pool's error, one line)
  Status Call(const std::string& method, const std::string& path,
              const google::protobuf::Message* in, google::protobuf::Message* out,
              std::string* json = nullptr);
  Status Get(const std::string& path, google::protobuf::Message* out) {
    return Call("GET", path, nullptr, out);
  }

 private:
  class Connections;
  const PoolAddress pool_;
  const std::unique_ptr<Connections> connections_;
};

// The same for one request alone.
Status RestCall(const PoolAddress& pool, const std::string& method, const std::string& path,
                const google::protobuf::Message* in, google::protobuf::Message* out,
                std::string* json = nullptr);
inline Status RestGet(const PoolAddress& pool, const std::string& path,
                      google::protobuf::Message* out) {
  return RestCall(pool, "GET", path, nullptr, out);
}

}  // namespace farcall::pool
