// SPDX-License-Identifier: Apache-2.0
// The table of settings; how a value becomes an option: apply_setting.cc.
#include "server/supervisor/options/serve_settings.h"

#include <array>
#include <utility>

#include "proto/handshake/handshake.h"
#include "proto/printable.h"
#include "settings/byte_rate.h"

namespace farcall::server {

namespace {

constexpr std::string_view kWhere = "Where", kAccess = "Who may connect", kMemory = "Memory",
                           kTime = "Device time and network", kIsolation = "Isolation",
                           kReports = "Reports", kPool = "Pool", kFileAlone = "";

template <auto Member>
auto* Of(ServeOptions& options) {
  return &(options.*Member);
}
template <auto Member>
std::string* OfTls(ServeOptions& options) {
  return &(options.tls.*Member);
}
template <auto Member>
std::string* OfPoolTls(ServeOptions& options) {
  return &(options.pool.tls.*Member);
}

Status SetTokenText(std::string* text, ServeOptions* options) {
  SetToken(text, options);
  return {};
}

Status SetTokenFile(std::string* text, ServeOptions* options) {
  Result<std::string> token = ReadTokenFile(*text);
  FARCALL_TRY(token.status());
  SetToken(&*token, options);
  return {};
}

Status SetJoinToken(std::string* text, ServeOptions* options) {
  Result<std::string> token = ReadTokenFile(*text);
  FARCALL_TRY(token.status());
  options->pool.join_token = std::move(*token);
  return {};
}

Status SetFactor(std::string* text, ServeOptions* options) {
  Result<uint32_t> factor = ParseFactor(*text);
  FARCALL_TRY(factor.status());
  options->oversubscribe_milli = *factor;
  return {};
}

Status SetModes(std::string* text, ServeOptions* options) {
  Result<DeviceModes> modes = ParseModes(*text);
  FARCALL_TRY(modes.status());
  options->modes = *modes;
  return {};
}

Status SetMaxShare(std::string* text, ServeOptions* options) {
  Result<uint32_t> milli = ParsePercent(*text);
  FARCALL_TRY(milli.status());
  options->compute.max_share_milli = *milli;
  options->chose_share = true;
  return {};
}

Status SetMaxLimit(std::string* text, ServeOptions* options) {
  Result<uint32_t> milli = ParsePercent(*text);
  FARCALL_TRY(milli.status());
  options->compute.max_limit_milli = *milli;
  return {};
}

Status SetMaxPriority(std::string* text, ServeOptions* options) {
  Result<quota::Priority> priority = ParsePriority(*text);
  FARCALL_TRY(priority.status());
  options->compute.max_priority = *priority;
  options->chose_priority = true;
  return {};
}

Status SetMaxNet(std::string* text, ServeOptions* options) {
  return ParseByteRate(*text, &options->max_net_bytes_per_s)
             ? Status()
             : Status(Code::kInvalid, Quoted(*text) + ": " + kByteRateForm);
}

Status SetWorkerUsers(std::string* text, ServeOptions* options) {
  Result<UserRange> range = ParseUserRange(*text);
  FARCALL_TRY(range.status());
  options->worker_users = *range;
  return {};
}

using O = ServeOptions;

constexpr auto kSettings = std::to_array<ServeSetting>({
    {.name = "listen",
     .group = kWhere,
     .help = "URL to listen on; may be repeated",
     .shown_default = kDefaultListenUrl,
     .list = Of<&O::listen>},
    {.name = "shm",
     .group = kWhere,
     .help = "UNIX socket for clients on this machine, which then use shared memory: a path, auto "
             "(PORT.shm beside the control socket), or off",
     .shown_default = "off",
     .parse = [](std::string* text, O* options) { return SetShm(*text, options); }},
    {.name = "ucx",
     .group = kWhere,
     .help = "let sessions that ask for it send their bytes by UCX, unencrypted; whoever reaches "
             "this host's ports can then send to their workers (so does --listen ucx://...)",
     .flag = Of<&O::ucx>},
    {.name = "verbs",
     .group = kWhere,
     .help =
         "let sessions that ask for it send their bytes by RDMA, unencrypted: auto, or the card "
         "as DEVICE[:PORT[:GID]] (so does --listen verbs://...), or off",
     .shown_default = "off",
     .parse = [](std::string* text, O* options) { return SetVerbs(*text, options); }},
    {.name = "device",
     .group = kWhere,
     .help = "auto, cuda, cpu[:PROFILE], dry[:PROFILE], or the path of a libcuda.so.1",
     .shown_default = "auto",
     .text = Of<&O::device>},
    {.name = "gpus",
     .group = kWhere,
     .help = "devices to serve, in the form of CUDA_VISIBLE_DEVICES (default: all)",
     .text = Of<&O::gpus>},
    {.name = "tcp_congestion", .group = kFileAlone, .text = Of<&O::tcp_congestion>},
    {.name = "compression",
     .group = kFileAlone,
     .parse = [](std::string* text, O* options) { return SetCompression(*text, options); }},
    {.name = "lanes", .group = kFileAlone, .least = 0, .most = kMaxLanes, .number = Of<&O::lanes>},

    // Of several tokens the last one holds.
    {.name = "token",
     .group = kAccess,
     .help = "the token itself; other users of this machine may see it in the list of processes, "
             "so prefer --token-file",
     .parse = SetTokenText},
    {.name = "token_file",
     .group = kAccess,
     .help = "file whose first line is the token",
     .parse = SetTokenFile},
    {.name = "token_verifier",
     .group = kAccess,
     .help = "file of verifiers, one per line, made by `farcall token new --verifier`; each is a "
             "tenant of its own",
     .parse = [](std::string* text,
                 O* options) { return ReadTokenVerifiers(*text, &options->tokens); }},
    {.name = "tls_cert",
     .group = kAccess,
     .help = "PEM file of the server's certificate and its chain, for tls:// URLs",
     .text = OfTls<&TlsFiles::certificate>},
    {.name = "tls_key",
     .group = kAccess,
     .help = "PEM file of the certificate's key",
     .text = OfTls<&TlsFiles::key>},
    {.name = "tls_client_ca",
     .group = kAccess,
     .help = "PEM file of the authorities that sign clients' certificates; a client without one is "
             "refused (default: none is asked for)",
     .text = OfTls<&TlsFiles::authorities>},
    {.name = "tls_crl",
     .group = kAccess,
     .help = "PEM file of revoked clients' certificates; all TLS files are read again when they "
             "change",
     .text = OfTls<&TlsFiles::revoked>},
    {.name = "shm_users",
     .group = kAccess,
     .help = "users of this machine, such as 1000,alice, who may use shared memory (default: with "
             "a token all, else the server's own)",
     .parse = [](std::string* text, O* options) { return SetShmUsers(*text, options); }},
    {.name = "plaintext",
     .group = kAccess,
     .help = "let other hosts connect without TLS, to tcp:// URLs: whoever is on the network "
             "between can read and change all data",
     .flag = Of<&O::plaintext>},
    {.name = "max_sessions",
     .group = kAccess,
     .help = "sessions at a time",
     .shown_default = "256",
     .least = 1,
     .most = 4096,
     .number = Of<&O::max_sessions>},
    {.name = "max_tenant_sessions",
     .group = kAccess,
     .help = "sessions of one tenant at a time; without verifiers, of one client address",
     .shown_default = "64",
     .least = 1,
     .most = 4096,
     .number = Of<&O::max_tenant_sessions>},
    {.name = "warm_workers",
     .group = kAccess,
     .help = "workers started before their sessions come; 0: none",
     .shown_default = "1",
     .least = 0,
     .most = kMaxWarmWorkers,
     .number = Of<&O::warm_workers>},
    {.name = "grace",
     .group = kAccess,
     .help = "seconds that a session outlives its lost connection",
     .shown_default = "60",
     .least = 0,
     .most = 86400,
     .number = Of<&O::grace_seconds>},
    {.name = "drain",
     .group = kAccess,
     .help =
         "seconds after SIGTERM in which sessions may end by themselves; then they are told and "
         "ended (default: no limit)",
     .least = 0,
     .most = 86400,
     .number = Of<&O::drain_seconds>},

    {.name = "mem",
     .group = kMemory,
     .help = "memory of one vGPU on each device, such as 4GiB (default: all of it)",
     .bytes = Of<&O::memory_bytes>},
    {.name = "tenant_mem",
     .group = kMemory,
     .help = "memory of all vGPUs of one tenant on each device (default: no limit); a tenant is as "
             "for --max-tenant-sessions",
     .bytes = Of<&O::tenant_memory_bytes>},
    {.name = "host_mem",
     .group = kMemory,
     .help = "pinned host memory of one vGPU (mapped and registered memory)",
     .shown_default = "4GiB",
     .bytes = Of<&O::host_memory_bytes>},
    {.name = "overhead",
     .group = kMemory,
     .help = "contexts and machine code count against the vGPU's quota (tenant), or do not count "
             "(host)",
     .shown_default = "tenant",
     .parse = [](std::string* text, O* options) { return SetOverhead(*text, options); }},
    {.name = "oversubscribe",
     .group = kMemory,
     .help = "grant this many times a device's memory; idle sessions are swapped to host memory",
     .shown_default = "1",
     .takes_numbers = true,
     .parse = SetFactor},
    {.name = "swap_host_mem",
     .group = kMemory,
     .help = "host memory for swapped sessions (default: half of the machine's)",
     .bytes = Of<&O::swap_host_bytes>},
    {.name = "park_after",
     .group = kMemory,
     .help = "swap a session out after this many idle seconds; 0: never",
     .shown_default = "0",
     .least = 0,
     .most = 86400,
     .number = Of<&O::park_after_seconds>},
    {.name = "park_claims",
     .group = kMemory,
     .help = "in a pool: move the memory of a claim whose place another takes to host memory, "
             "instead of ending its sessions",
     .flag = Of<&O::parks_claims>},

    {.name = "mode",
     .group = kTime,
     .help = "how vGPUs share a device: slice, exclusive, mps or mig; per device as "
             "0=exclusive,1=slice",
     .shown_default = "slice",
     .parse = SetModes},
    {.name = "max_share",
     .group = kTime,
     .help = "largest share that a client may ask for, such as 75% (default: 50%; 100% in a pool)",
     .parse = SetMaxShare},
    {.name = "max_limit",
     .group = kTime,
     .help = "limit of each vGPU, such as 80% of a device's time (default: none)",
     .parse = SetMaxLimit},
    {.name = "max_priority",
     .group = kTime,
     .help = "highest priority that a client may ask for: high, normal or low (default: normal; "
             "high in a pool)",
     .parse = SetMaxPriority},
    {.name = "max_net",
     .group = kTime,
     .help = "network budget of each vGPU, both directions together, such as 500MB/s (default: "
             "none)",
     .parse = SetMaxNet},

    {.name = "worker_users",
     .group = kIsolation,
     .help = "range of user ids, such as 700000-700255; each vGPU's workers run as a user of their "
             "own (needs root)",
     .parse = SetWorkerUsers},
    {.name = "worker_memory",
     .group = kIsolation,
     .help = "host memory of one vGPU's workers, such as 16GiB, enforced with a cgroup (needs root "
             "or a delegated cgroup v2)",
     .bytes = Of<&O::worker_memory_bytes>},
    {.name = "worker_calls",
     .group = kIsolation,
     .help = "system calls that workers are not known to need: refuse, or report them in the log "
             "and allow them",
     .shown_default = "refuse",
     .parse = [](std::string* text, O* options) { return SetWorkerCalls(*text, options); }},
    {.name = "image_store_max",
     .group = kIsolation,
     .help = "disk space for kernel images and compiled kernels of all tenants; the least recently "
             "used are removed; 0: no limit",
     .shown_default = "32GiB",
     .bytes = Of<&O::image_store_bytes>},
    {.name = "trust_tenants",
     .group = kIsolation,
     .help = "tenants trust one another: serve several of them even if the kernel has no Landlock; "
             "workers may write to all of /dev/shm",
     .flag = Of<&O::trust_tenants>},
    {.name = "debuggable",
     .group = kIsolation,
     .help = "allow debuggers of the same user to attach to the server and its workers",
     .flag = Of<&O::debuggable>},

    {.name = "log_level",
     .group = kReports,
     .help = "off, error, warn, info, debug or trace",
     .shown_default = "info",
     .text = Of<&O::log_level>},
    {.name = "control",
     .group = kReports,
     .help = "socket for farcall ps, top and quota, or off (default: PORT.sock in /run/farcall, "
             "$XDG_RUNTIME_DIR/farcall or /tmp/farcall-UID)",
     .text = Of<&O::control>},
    {.name = "metrics",
     .group = kReports,
     .help = "host:port of the Prometheus endpoint (default: none)",
     .text = Of<&O::metrics>},
    {.name = "audit",
     .group = kReports,
     .help = "file to which sessions, refusals and changed quotas are appended, as JSON lines "
             "(default: none)",
     .text = Of<&O::audit>},

    {.name = "pool",
     .group = kPool,
     .help = "join the pool at this http:// or https:// URL; only its leases open sessions",
     .text = [](O& options) { return &options.pool.url; }},
    {.name = "pool_ca",
     .group = kPool,
     .help = "CA certificates for https:// (default: the system's)",
     .text = OfPoolTls<&TlsFiles::authorities>},
    {.name = "pool_cert",
     .group = kPool,
     .help = "PEM file of this host's certificate, for a pool with --tls-client-ca",
     .text = OfPoolTls<&TlsFiles::certificate>},
    {.name = "pool_key",
     .group = kPool,
     .help = "PEM file of its key",
     .text = OfPoolTls<&TlsFiles::key>},
    {.name = "pool_name",
     .group = kPool,
     .help = "this host's name in the pool (default: its host name)",
     .text = [](O& options) { return &options.pool.name; }},
    {.name = "pool_token_file",
     .group = kPool,
     .help = "file whose first line is a join token; needed once, then a credential is kept in "
             "FARCALL_CACHE_DIR",
     .parse = SetJoinToken},
    {.name = "advertise",
     .group = kPool,
     .help = "URL at which the pool's clients reach this server (default: --listen)",
     .list = [](O& options) { return &options.pool.advertise; }},
});

}  // namespace

std::span<const ServeSetting> ServeSettings() {
  return kSettings;
}

}  // namespace farcall::server
