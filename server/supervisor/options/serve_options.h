// SPDX-License-Identifier: Apache-2.0
// The server's settings: defaults, then the configuration file, then flags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/handshake/token.h"
#include "proto/status.h"
#include "quota/compute_quota.h"
#include "server/supervisor/options/device_mode.h"
#include "server/supervisor/options/pool_options.h"
#include "server/worker/sandbox/worker_users.h"
#include "transport/tls/tls_session.h"

namespace farcall::server {

inline constexpr char kDefaultListenUrl[] = "tcp://127.0.0.1:7717";
inline constexpr uint32_t kMaxWarmWorkers = 64;
inline constexpr char kShmAuto[] = "auto";  // PORT.shm in the folder of the control socket

struct ServeOptions {
  std::vector<std::string> listen;  // empty: kDefaultListenUrl
  TlsFiles tls;                     // of tls:// ports
  std::string shm;                  // path of the socket of shm://, or kShmAuto; empty: none
  std::vector<uint32_t> shm_users;  // who may use it; empty: all who reach it
  bool plaintext = false;           // other hosts may connect without TLS
  bool ucx = false;                 // sessions that ask for it may use UCX; OffersUcx
  // Or RDMA, on this DEVICE[:PORT[:GID]] or "auto"; empty: none. OffersVerbs
  std::string verbs;
  std::string device = "auto";
  std::string gpus;  // as CUDA_VISIBLE_DEVICES has it; empty: all
  DeviceModes modes;
  std::vector<TokenVerifier> tokens;  // what it keeps of each; empty: none wanted
  uint64_t memory_bytes = 0;  // per vGPU and device: default and ceiling; 0: the whole device
  uint64_t tenant_memory_bytes = 0;  // of all vGPUs of a tenant, per device; 0: no limit
  uint64_t host_memory_bytes = uint64_t{4} << 30;  // locked for a vGPU on this machine, at most
  // Of a vGPU's workers on this machine, by a cgroup; 0: no bound.
  uint64_t worker_memory_bytes = 0;
  // Of all owners' images and kernel caches on disk; 0: no bound.
  uint64_t image_store_bytes = uint64_t{32} << 30;
  // What a vGPU may have of a device's time. By default no client takes all of what is promised,
  // nor a place before the others; in a pool, which admits claims by itself, any may
  // (SettledPolicy).
  quota::ComputePolicy compute{.max_share_milli = 500, .max_priority = quota::Priority::kNormal};
  bool chose_share = false, chose_priority = false;
  uint64_t max_net_bytes_per_s = 0;     // of a vGPU, both directions together; 0: no bound
  uint32_t oversubscribe_milli = 1000;  // of a device's memory, what is lent in all
  uint64_t swap_host_bytes = 0;         // for what is not on its device; 0: half of the host's
  uint32_t park_after_seconds = 0;      // who idles so long leaves the device; 0: nobody does
  // What the driver takes for a session beside its allocations counts against its quota.
  bool charges_overhead = true;
  uint32_t grace_seconds = 60;
  uint32_t drain_seconds = 0;  // after SIGTERM, until sessions are ended; 0: until they end
  uint32_t max_sessions = 256;
  uint32_t max_tenant_sessions =
      64;  // of them, one tenant's (admission.cc); a pool's claims say themselves
  uint32_t warm_workers = 1;   // started before their sessions (warm_workers.h)
  std::string tcp_congestion;  // of connections with clients; empty: the system's own
  bool compresses = true;      // bulk data of sessions, where the line is slow
  uint32_t lanes = 0;          // connections for bulk data of each session; 0: by the distance
  std::string log_level = "info";
  PoolOptions pool;
  bool parks_claims =
      false;            // of a pool that takes a claim's place: its memory goes to host memory
  std::string control;  // path of the control socket; empty: by the first URL; "off": none
  std::string metrics;  // host:port for Prometheus; empty: none
  std::string audit;    // file for who had what; empty: none
  UserRange
      worker_users;    // each vGPU's workers have one of these ids; none: they run as the server
  std::string report;  // file for what was served, written at exit; empty: none
  // Tenants trust one another: where the kernel has no Landlock, several may still use this server.
  bool trust_tenants = false;
  bool reports_worker_calls =
      false;                // a system call that a worker is refused is logged and allowed
  bool debuggable = false;  // a debugger of the same user may attach

  // Also where it listens on ucx://, or verbs://.
  bool OffersUcx() const;
  bool OffersVerbs() const;

  // Sessions' memory may leave their devices.
  bool swaps() const {
    return oversubscribe_milli > 1000 || park_after_seconds != 0 || parks_claims;
  }
};

// Reads a TOML file into `options` (serve_settings.h).
//   Errors  kInvalid, one line: the file, the setting, the nearest known name or what would be
//   right
Status ReadServeConfig(const std::string& path, ServeOptions* options);

// The server takes this token alone; the text is wiped.
void SetToken(std::string* token, ServeOptions* options);
// The server takes the tokens whose verifiers are in the file, one a line; empty lines and those
// that begin with '#' are passed over.   Errors  kInvalid
Status ReadTokenVerifiers(const std::string& path, std::vector<TokenVerifier>* tokens);

// The token in a file: its first line, without spaces at the ends.   Errors  kInvalid
Result<std::string> ReadTokenFile(const std::string& path);

// "4GiB", "512MiB", "1000000".   Errors  kInvalid
Result<uint64_t> ParseBytes(std::string_view text);

// "30%", "12.5%" in thousandths, more than none; "high", "normal", "low".   Errors  kInvalid
Result<uint32_t> ParsePercent(std::string_view text);
Result<quota::Priority> ParsePriority(std::string_view text);

// "1.8" in thousandths, 1 to 16.   Errors  kInvalid
Result<uint32_t> ParseFactor(std::string_view text);

// "tenant" or "host": who has what the driver takes beside allocations.   Errors  kInvalid
Status SetOverhead(std::string_view text, ServeOptions* options);

// "refuse" or "report": what becomes of a worker's system call that is not on the list.
//   Errors  kInvalid
Status SetWorkerCalls(std::string_view text, ServeOptions* options);

// "off", "auto" or a path, for ServeOptions::shm.   Errors  kInvalid
Status SetShm(const std::string& text, ServeOptions* options);
// "off", "auto", or DEVICE[:PORT[:GID]].   Errors  kInvalid
Status SetVerbs(const std::string& text, ServeOptions* options);
// "1000,alice": ids and names of this machine's users.   Errors  kInvalid
Status SetShmUsers(std::string_view text, ServeOptions* options);
Status SetCompression(std::string_view text, ServeOptions* options);

// Whether files, users and URLs fit together.   Errors  kInvalid
Status CheckTransports(const ServeOptions& options);

// The policy with the defaults of where the server stands.
quota::ComputePolicy SettledPolicy(const ServeOptions& options);

// Refuses what must not be: another interface than the loopback without a token, an unknown log
// level, no sessions.
Status CheckServeOptions(const ServeOptions& options);

}  // namespace farcall::server
