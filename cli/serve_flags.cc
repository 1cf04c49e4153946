// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_flags.h"

#include "server/supervisor/serve_options.h"

namespace farcall::cli {

namespace {

void AddWhere(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Where");
  command->add_option("--listen", flags->listen, "URL to listen on; may be repeated")
      ->default_str(server::kDefaultListenUrl);
  command
      ->add_option("--shm", flags->shm,
                   "UNIX socket for clients on this machine, which then use shared memory: a path, "
                   "auto (PORT.shm beside the control socket), or off")
      ->default_str("off");
  command
      ->add_option("--device", flags->device,
                   "auto, cuda, cpu[:PROFILE], dry[:PROFILE], or the path of a libcuda.so.1")
      ->default_str("auto");
  command->add_option("--gpus", flags->gpus,
                      "devices to serve, in the form of CUDA_VISIBLE_DEVICES (default: all)");
  command->add_option("--config", flags->config,
                      "configuration file, TOML (default: /etc/farcall/server.toml if it exists)");
}

void AddAccess(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Who may connect");
  command->add_option("--token-file", flags->token_file, "file whose first line is the token");
  command->add_option("--token-verifier", flags->token_verifier,
                      "file of verifiers, one per line, made by `farcall token new --verifier`; "
                      "each is a tenant of its own");
  command->add_option("--token", flags->token,
                      "the token itself; other users of this machine may see it in the list of "
                      "processes, so prefer --token-file");
  command->add_option("--tls-cert", flags->tls_cert,
                      "PEM file of the server's certificate and its chain, for tls:// URLs");
  command->add_option("--tls-key", flags->tls_key, "PEM file of the certificate's key");
  command->add_option(
      "--tls-client-ca", flags->tls_client_ca,
      "PEM file of the authorities that sign clients' certificates; a client without "
      "one is refused (default: none is asked for)");
  command->add_option(
      "--tls-crl", flags->tls_crl,
      "PEM file of revoked clients' certificates; all TLS files are read again when "
      "they change");
  command->add_option("--shm-users", flags->shm_users,
                      "users of this machine, such as 1000,alice, who may use shared memory "
                      "(default: with a token all, else the server's own)");
  command->add_flag("--plaintext", flags->plaintext,
                    "let other hosts connect without TLS, to tcp:// URLs: whoever is on the "
                    "network between can read and change all data");
  command->add_option("--max-sessions", flags->max_sessions, "sessions at a time")
      ->default_str("256")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--max-tenant-sessions", flags->max_tenant_sessions,
                   "sessions of one tenant at a time; without verifiers, of one client address")
      ->default_str("64")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--warm-workers", flags->warm_workers,
                   "workers started before their sessions come; 0: none")
      ->default_str("1")
      ->check(CLI::Range(0u, server::kMaxWarmWorkers));
  command
      ->add_option("--grace", flags->grace_seconds,
                   "seconds that a session outlives its lost connection")
      ->default_str("60");
  command
      ->add_option("--drain", flags->drain_seconds,
                   "seconds after SIGTERM in which sessions may end by themselves; then they are "
                   "told and ended (default: no limit)")
      ->check(CLI::Range(0, 86400));
}

void AddMemory(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Memory");
  command->add_option("--mem", flags->memory,
                      "memory of one vGPU on each device, such as 4GiB (default: all of it)");
  command->add_option("--tenant-mem", flags->tenant_memory,
                      "memory of all vGPUs of one tenant on each device (default: no limit); a "
                      "tenant is as for --max-tenant-sessions");
  command
      ->add_option("--host-mem", flags->host_memory,
                   "pinned host memory of one vGPU (mapped and registered memory)")
      ->default_str("4GiB");
  command
      ->add_option("--overhead", flags->overhead,
                   "contexts and machine code count against the vGPU's quota (tenant), or do not "
                   "count (host)")
      ->default_str("tenant");
  command
      ->add_option("--oversubscribe", flags->oversubscribe,
                   "grant this many times a device's memory; idle sessions are swapped to host "
                   "memory")
      ->default_str("1");
  command->add_option("--swap-host-mem", flags->swap_host_memory,
                      "host memory for swapped sessions (default: half of the machine's)");
  command
      ->add_option("--park-after", flags->park_after_seconds,
                   "swap a session out after this many idle seconds; 0: never")
      ->default_str("0")
      ->check(CLI::Range(0, 86400));
}

void AddTime(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Device time and network");
  command
      ->add_option("--mode", flags->mode,
                   "how vGPUs share a device: slice, exclusive, mps or mig; per device as "
                   "0=exclusive,1=slice")
      ->default_str("slice");
  command->add_option(
      "--max-share", flags->max_share,
      "largest share that a client may ask for, such as 75% (default: 50%; 100% in a "
      "pool)");
  command->add_option("--max-limit", flags->max_limit,
                      "limit of each vGPU, such as 80% of a device's time (default: none)");
  command->add_option("--max-priority", flags->max_priority,
                      "highest priority that a client may ask for: high, normal or low (default: "
                      "normal; high in a pool)");
  command->add_option("--max-net", flags->max_net,
                      "network budget of each vGPU, both directions together, such as 500MB/s "
                      "(default: none)");
}

void AddIsolation(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Isolation");
  command->add_option("--worker-users", flags->worker_users,
                      "range of user ids, such as 700000-700255; each vGPU's workers run as a "
                      "user of their own (needs root)");
  command->add_option("--worker-memory", flags->worker_memory,
                      "host memory of one vGPU's workers, such as 16GiB, enforced with a cgroup "
                      "(needs root or a delegated cgroup v2)");
  command
      ->add_option("--worker-calls", flags->worker_calls,
                   "system calls that workers are not known to need: refuse, or report them in the "
                   "log and allow them")
      ->default_str("refuse");
  command
      ->add_option("--image-store-max", flags->image_store_max,
                   "disk space for kernel images and compiled kernels of all tenants; the least "
                   "recently used are removed; 0: no limit")
      ->default_str("32GiB");
  command->add_flag("--trust-tenants", flags->trust_tenants,
                    "tenants trust one another: serve several of them even if the kernel has no "
                    "Landlock; workers may write to all of /dev/shm");
  command->add_flag("--debuggable", flags->debuggable,
                    "allow debuggers of the same user to attach to the server and its workers");
}

void AddReports(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Reports");
  command->add_option("--log-level", flags->log_level, "off, error, warn, info, debug or trace")
      ->default_str("info");
  command->add_option("--control", flags->control,
                      "socket for farcall ps, top and quota, or off (default: PORT.sock in "
                      "/run/farcall, $XDG_RUNTIME_DIR/farcall or /tmp/farcall-UID)");
  command->add_option("--metrics", flags->metrics,
                      "host:port of the Prometheus endpoint (default: none)");
  command->add_option("--audit", flags->audit,
                      "file to which sessions, refusals and changed quotas are appended, as JSON "
                      "lines (default: none)");
  command->add_option("--report", flags->report,
                      "file for totals at exit: sessions, bytes, peak memory, as JSON (default: "
                      "none)");
}

void AddPool(CLI::App* command, ServeFlags* flags) {
  command->option_defaults()->group("Pool");
  command->add_option(
      "--pool", flags->pool,
      "join the pool at this http:// or https:// URL; only its leases open sessions");
  command->add_option("--pool-ca", flags->pool_ca,
                      "CA certificates for https:// (default: the system's)");
  command->add_option("--pool-cert", flags->pool_cert,
                      "PEM file of this host's certificate, for a pool with --tls-client-ca");
  command->add_option("--pool-key", flags->pool_key, "PEM file of its key");
  command->add_option("--pool-name", flags->pool_name,
                      "this host's name in the pool (default: its host name)");
  command->add_option(
      "--pool-token-file", flags->pool_token_file,
      "file whose first line is a join token; needed once, then a credential is kept "
      "in FARCALL_CACHE_DIR");
  command->add_option("--advertise", flags->advertise,
                      "URL at which the pool's clients reach this server (default: --listen)");
}

}  // namespace

void AddServeFlags(CLI::App* command, ServeFlags* flags) {
  AddWhere(command, flags);
  AddAccess(command, flags);
  AddMemory(command, flags);
  AddTime(command, flags);
  AddIsolation(command, flags);
  AddReports(command, flags);
  AddPool(command, flags);
}

}  // namespace farcall::cli
