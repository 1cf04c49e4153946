// SPDX-License-Identifier: Apache-2.0
// Endpoint URLs: scheme://host:port, scheme://[v6]:port, scheme://name, or scheme:///path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/status.h"

namespace farcall {

struct Url {
  std::string text;  // as given, for messages
  std::string scheme;
  std::string rest;  // after ://
};

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// What stands before "://"; empty: nothing does.
inline std::string_view SchemeOf(std::string_view url) {
  const size_t end = url.find("://");
  return url.substr(0, end == std::string_view::npos ? 0 : end);
}
// Whether a pool is asked there, by TLS or without.
inline bool IsPoolUrl(std::string_view url) {
  return SchemeOf(url) == "pool" || SchemeOf(url) == "pools";
}
//   Errors  kInvalid, showing the value and the right form
Result<Url> ParseUrl(std::string_view text);
Result<HostPort> ParseHostPort(const Url& url);
inline constexpr uint16_t kServerPort = 7717, kPoolPort = 7718;  // where none is named
// An endpoint as clients are given it, written out: "gpu-host" and "gpu-host:7717" are
// tcp://gpu-host:7717, "pool://host" has the pool's port, "shm://" the path of this user's server.
// What has a scheme and no port that is known stays as it is.
//   Errors  kInvalid, showing the value and the right form
Result<std::string> WholeEndpoint(std::string_view text);
// The same of a list with commas: several servers whose devices make one list. No pool, and none
// twice; at most kMaxEndpoints.
Result<std::string> WholeEndpoints(std::string_view text);
inline constexpr size_t kMaxEndpoints = 16;
std::vector<std::string> SplitEndpoints(std::string_view text);
// "host:port", with brackets around an IPv6 address.
std::string FormatHostPort(std::string_view host, uint16_t port);
// Whether what listens there is reached from this host alone.
bool IsLoopbackUrl(std::string_view url);

}  // namespace farcall
