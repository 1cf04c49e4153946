// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings/transport_wish.h"

#include <iterator>

#include "proto/handshake/fabric_transport.h"
#include "proto/printable.h"
#include "transport/url.h"

namespace farcall::client {

namespace {

constexpr std::string_view kNames[] = {"", "auto", "tcp", "tls", "shm", "ucx", "verbs"};

}  // namespace

std::optional<TransportWish> ParseTransport(std::string_view text) {
  for (size_t i = 1; i < std::size(kNames); ++i)
    if (text == kNames[i]) return static_cast<TransportWish>(i);
  return std::nullopt;
}

Status CheckTransport(const std::string& endpoint, TransportWish wish) {
  const std::string_view scheme = SchemeOf(endpoint);
  const std::string_view name = kNames[static_cast<uint8_t>(wish)];
  const bool is_behind = (wish == TransportWish::kShm && scheme == "tcp") ||
                         ((wish == TransportWish::kUcx || wish == TransportWish::kVerbs) &&
                          (scheme == "tcp" || scheme == "tls"));
  // A pool says itself where its hosts are.
  const bool is_open = endpoint.empty() || IsPoolUrl(endpoint);
  if (name.empty() || wish == TransportWish::kAuto || scheme == name || is_behind || is_open)
    return {};
  return {Code::kInvalid, "transport " + std::string(name) + " cannot reach " +
                              Printable(endpoint, 200) + ": use an endpoint of " +
                              std::string(name) + "://, or transport auto"};
}

bool WantsSharedMemory(const std::string& endpoint, TransportWish wish) {
  return SchemeOf(endpoint) == "tcp" &&
         (wish == TransportWish::kUnset || wish == TransportWish::kAuto ||
          wish == TransportWish::kShm);
}

TransportKind WantedFabric(const std::string& endpoint, TransportWish wish) {
  const std::string_view scheme = SchemeOf(endpoint);
  const bool is_open = scheme == "tcp" || scheme == "tls";
  if (scheme == "verbs" || (wish == TransportWish::kVerbs && is_open)) return kVerbsTransport;
  if (scheme == "ucx" || (wish == TransportWish::kUcx && is_open)) return kUcxTransport;
  return TransportKind::kTcp;
}

bool MayOpenSocketOf(TransportWish wish, bool is_inside_host) {
  return wish != TransportWish::kUnset || is_inside_host;
}

}  // namespace farcall::client
