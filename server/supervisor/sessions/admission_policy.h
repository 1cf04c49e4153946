// SPDX-License-Identifier: Apache-2.0
// What this server asks of whoever wants a session, by its options: the way they come, who they
// are, and how much there may be. It knows no session.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/status.h"
#include "server/supervisor/options/serve_options.h"

namespace farcall::server {

// How a connection came.
struct Arrival {
  std::string peer;              // as Channel::PeerName has it
  std::string identity;          // of its certificate; empty: it has shown none
  std::optional<uint32_t> user;  // the kernel's word, over shm://
  bool is_tls = false;
  bool is_loopback = false;
  std::optional<std::chrono::microseconds> round_trip;  // none where there is no network
};

// What a server holds when another session is asked for.
struct Occupancy {
  bool is_draining = false;
  size_t sessions = 0;
  size_t tenant_sessions = 0;      // of whoever asks
  bool has_room_in_memory = true;  // MemorySwapping::takes_more
};

//   Thread  any
class AdmissionPolicy {
 public:
  // `options` outlive it.
  explicit AdmissionPolicy(const ServeOptions& options) : options_(options) {}

  // Who comes from another host comes by TLS, unless --plaintext was given; over shm:// only those
  // that --shm-users names; with a client CA nobody whose certificate names nobody. `tls_url`: of a
  // port of this server's that speaks TLS; empty: it has none.
  //   Errors  kRefused
  Status CheckArrival(const Arrival& arrival, const std::string& tls_url) const;
  // `counted`: what CountedAs says; empty: a pool's claim, whose sessions the pool counts.
  //   Errors  kUnavailable
  Status CheckRoom(const Occupancy& occupancy, const std::string& counted) const;
  // Whoever comes back for a session, or with a lane of it, comes as the session came.
  //   Errors  kRefused
  static Status CheckSame(const Arrival& session, const Arrival& arrival);
  // As what a session counts against --max-tenant-sessions. All clients of a server with one token,
  // or none, hold the same: without certificates they are told apart by where they come from.
  std::string CountedAs(const Arrival& arrival, const std::string& tenant) const;

  // Connections for bulk data. Without --lanes, as many as keep a line of 10 Gbit busy over the
  // round trip, where each has at most the socket buffer that Linux grants: 4 MiB.
  uint32_t LanesFor(const Arrival& arrival) const;

  // Of a vGPU on a device of so many bytes, at most.
  uint64_t CeilingOf(uint64_t device_bytes) const;
  // `asked_bytes`: 0 for all that may be had.
  uint64_t QuotaFor(uint64_t asked_bytes, uint64_t device_bytes) const;
  // Not made smaller in silence: a program that asked has plans for it. `device_bytes`: of the
  // session's devices.
  //   Errors  kRefused
  Status CheckMemory(uint64_t asked_bytes, const std::vector<uint64_t>& device_bytes) const;

 private:
  const ServeOptions& options_;
};

}  // namespace farcall::server
