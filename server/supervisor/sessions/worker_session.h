// SPDX-License-Identifier: Apache-2.0
// A session and its worker, as the supervisor keeps them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/handshake/handshake.h"
#include "quota/memory/memory_ledger.h"
#include "server/supervisor/processes/event_rate.h"
#include "server/supervisor/processes/worker_inbox.h"
#include "server/supervisor/sessions/admission_policy.h"
#include "server/worker/worker_process.h"
#include "transport/channel.h"

namespace farcall::server {

// The vGPU of a pool's claim is named this and the claim's id.
inline constexpr std::string_view kClaimPrefix = "claim ";

struct WorkerSession {
  WorkerProcess process;
  SessionId session{};
  SessionKey key;                // it has to be shown to come back, and never leaves this process
  std::string tenant;            // whose its images are: no secret
  std::string vgpu, who, ended;  // `ended`: the cause the worker told
  Arrival arrival;               // and so come its lanes, and whoever comes back for it
  bool is_warm = false;          // its process was started before it
  uint64_t number = 0;
  std::string client_user, client_host, program;  // printable
  std::string raw_client_host;                    // client_host as it came, to be compared
  uint32_t client_pid = 0;
  int client_fd = -1;         // a pidfd of the client's process; -1: it is gone, or on another host
  std::optional<uid_t> user;  // its own; none: the server's
  std::vector<int> devices;   // the session's, by the server's numbers
  std::string claim;          // of a pool; empty: of none
  std::string counted;        // with these of --max-tenant-sessions; empty: a claim's
  std::string mps_group;      // empty: it is no MPS client
  bool is_terminated = false;  // by MPS, before it is killed
  Clock::time_point kill_at = Clock::time_point::max();
  Clock::time_point since;
  bool has_ended = false;    // it has said so: it says nothing more
  bool is_shut_out = false;  // nothing of it is read any more
  EventRate rate{kMessagesPerSecond, kMessagesAtOnce, Clock::now()};
  Clock::time_point muted_until{};  // it sent too much; nothing is read meanwhile
  uint64_t output = 0;              // its pipe in WorkerOutput
  quota::Charge rings;              // of shared memory, in its vGPU's quota of host memory
};

}  // namespace farcall::server
