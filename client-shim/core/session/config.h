// SPDX-License-Identifier: Apache-2.0
// What environment and files (settings.h) ask of a client. Read once, at the first call; flags of
// `farcall run` arrive as environment.
#pragma once

#include <string>
#include <vector>

#include "client-shim/core/settings/transport_wish.h"
#include "proto/handshake/handshake.h"
#include "transport/link.h"

namespace farcall::client {

// A session to be: where, and by which claim of a pool.
struct Target {
  std::string endpoint;
  std::string claim;  // "": of a server; of a pool: a claim of this run
};

struct Config {
  std::string endpoint;         // FARCALL_ENDPOINT
  std::vector<Target> targets;  // the servers it names, or one for each claim of a pool
  std::string token;            // FARCALL_TOKEN or the first line of FARCALL_TOKEN_FILE
  std::string vgpu;             // FARCALL_VGPU: shared by the processes of one `farcall run`
  uint32_t devices = 0;         // FARCALL_COUNT: of a pool, how many devices to ask for
  TransportWish transport = kDefaultTransport;  // FARCALL_TRANSPORT
  std::string tcp_congestion;                   // FARCALL_TCP_CONGESTION; "" = the system's own
  LinkOptions::Packing packing = LinkOptions::Packing::kAuto;  // FARCALL_COMPRESSION
  QuotaRequest quota;           // FARCALL_MEM, _SHARE, _LIMIT, _PRIORITY, _NET
  std::string stats_file;       // FARCALL_STATS
  std::string counters_folder;  // FARCALL_COUNTERS, of `farcall run`
  std::string server_scope;     // of the endpoint and the token: settings.h
  std::string cache_dir;  // FARCALL_CACHE_DIR, else $XDG_CACHE_HOME/farcall or ~/.cache/farcall; ""
                          // = no cache
  bool sync = false;      // FARCALL_SYNC
  std::string error;      // one line if a value cannot be used: cuInit fails with it
};

// Leaked: the C runtime calls us after static destructors.
const Config& GetConfig();

}  // namespace farcall::client
