// SPDX-License-Identifier: Apache-2.0
// The client's side of the REST door: the CLI's verbs, and how an agent finds the gRPC address.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "proto/status.h"

namespace farcall::pool {

// "http://host:port" -> "host", "host:port" -> ":port".
std::string HostOf(const std::string& url);
std::string PortOf(const std::string& address);

// One request; `in` may be nullptr. `json`, if not nullptr, is the answer as it came.
//   Errors  kInvalid (the URL), kUnavailable (nobody there), kRefused (the pool's error, one line)
Status RestCall(const std::string& url, const std::string& token, const std::string& method,
                const std::string& path, const google::protobuf::Message* in,
                google::protobuf::Message* out, std::string* json = nullptr);
inline Status RestGet(const std::string& url, const std::string& token, const std::string& path,
                      google::protobuf::Message* out) {
  return RestCall(url, token, "GET", path, nullptr, out);
}

}  // namespace farcall::pool
