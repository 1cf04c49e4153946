// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/admission_policy.h"

#include <algorithm>

#include "proto/handshake/handshake.h"
#include "proto/printable.h"
#include "transport/tls/identity.h"

namespace farcall::server {

Status AdmissionPolicy::CheckArrival(const Arrival& arrival, const std::string& tls_url) const {
  if (!options_.plaintext && !arrival.is_tls && !arrival.is_loopback) {
    const std::string refused = "this server takes no plaintext from other hosts: ";
    if (tls_url.empty()) {
      return {Code::kRefused, refused +
                                  "start it with --listen tls://..., --tls-cert and --tls-key, or "
                                  "with --plaintext"};
    }
    return {Code::kRefused, refused + "connect with tls://, port " +
                                tls_url.substr(tls_url.rfind(':') + 1) +
                                ", or start the server with --plaintext"};
  }
  const std::vector<uint32_t>& users = options_.shm_users;
  if (arrival.user && !users.empty() &&
      std::find(users.begin(), users.end(), *arrival.user) == users.end()) {
    return {Code::kRefused,
            "user " + std::to_string(*arrival.user) +
                " may not use this server's shared memory: --shm-users names others; use its "
                "tcp:// or tls:// endpoint"};
  }
  if (arrival.identity.empty() && arrival.is_tls && !options_.tls.authorities.empty()) {
    return {Code::kRefused,
            "the certificate names nobody: issue one with a URI or a common name, of at most 240 "
            "bytes"};
  }
  return {};
}

Status AdmissionPolicy::CheckRoom(const Occupancy& occupancy, const std::string& counted) const {
  if (occupancy.is_draining) {
    return {Code::kUnavailable,
            "the server is draining and takes no new sessions; connect to another server, or wait "
            "until this one has been started again"};
  }
  if (occupancy.sessions >= options_.max_sessions) {
    return {Code::kUnavailable, "the server is full: " + std::to_string(occupancy.sessions) +
                                    " sessions of " + std::to_string(options_.max_sessions)};
  }
  if (!counted.empty() && occupancy.tenant_sessions >= options_.max_tenant_sessions) {
    return {Code::kUnavailable, counted + " has " + std::to_string(occupancy.tenant_sessions) +
                                    " sessions of " + std::to_string(options_.max_tenant_sessions) +
                                    " here; --max-tenant-sessions allows more"};
  }
  if (!occupancy.has_room_in_memory) {
    return {Code::kUnavailable,
            "the server swaps memory most of its time: it takes no new sessions until less of it "
            "is wanted"};
  }
  return {};
}

Status AdmissionPolicy::CheckSame(const Arrival& session, const Arrival& arrival) {
  if (session.is_tls != arrival.is_tls) {
    return {Code::kRefused, session.is_tls ? "the session uses TLS, and this connection does not"
                                           : "this connection uses TLS, and the session does not"};
  }
  if (session.identity != arrival.identity) {
    return {Code::kRefused, "the certificate is of " + Quoted(arrival.identity) +
                                ", and the session's is of " + Quoted(session.identity)};
  }
  return {};
}

std::string AdmissionPolicy::CountedAs(const Arrival& arrival, const std::string& tenant) const {
  constexpr size_t kWhole = 8 * kMaxIdentityBytes;  // escaped: none is cut to what another is
  if (!arrival.identity.empty()) return Printable(arrival.identity, kWhole);
  return options_.tokens.size() > 1 ? tenant : arrival.peer.substr(0, arrival.peer.rfind(':'));
}

uint64_t AdmissionPolicy::CeilingOf(uint64_t device_bytes) const {
  return options_.memory_bytes == 0 ? device_bytes : std::min(device_bytes, options_.memory_bytes);
}

uint64_t AdmissionPolicy::QuotaFor(uint64_t asked_bytes, uint64_t device_bytes) const {
  const uint64_t ceiling = CeilingOf(device_bytes);
  return asked_bytes == 0 ? ceiling : std::min(ceiling, asked_bytes);
}

Status AdmissionPolicy::CheckMemory(uint64_t asked_bytes,
                                    const std::vector<uint64_t>& device_bytes) const {
  uint64_t most = 0;
  for (uint64_t bytes : device_bytes) most = std::max(most, CeilingOf(bytes));
  return asked_bytes <= most
             ? Status()
             : Status(Code::kRefused, "memory: asked " + std::to_string(asked_bytes) +
                                          " bytes, at most " + std::to_string(most) + " here");
}

uint32_t AdmissionPolicy::LanesFor(const Arrival& arrival) const {
  constexpr uint64_t kFewest = 2, kBytesPerMicrosecond = 1250, kSocketBytes = 4u << 20;
  if (options_.lanes != 0) return options_.lanes;
  const auto microseconds =
      static_cast<uint64_t>(arrival.round_trip ? arrival.round_trip->count() : 0);
  const uint64_t wanted = (microseconds * kBytesPerMicrosecond + kSocketBytes - 1) / kSocketBytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kFewest, kMaxLanes));
}

}  // namespace farcall::server
