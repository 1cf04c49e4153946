// SPDX-License-Identifier: Apache-2.0
// `farcall serve`: flags over the configuration file over defaults.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "cli/commands.h"
#include "proto/byte_rate.h"
#include "proto/printable.h"
#include "server/supervisor/exit_code.h"
#include "server/supervisor/serve_options.h"
#include "server/supervisor/supervisor.h"

namespace farcall::cli {

namespace {

constexpr char kSystemConfig[] = "/etc/farcall/server.toml";

struct Flags {
  std::vector<std::string> listen;
  std::string device, gpus, token, token_file, token_verifier, memory, host_memory, config,
      log_level, report, control, metrics, audit, pool, pool_name, pool_token_file, pool_ca;
  std::vector<std::string> advertise;
  std::string max_share, max_limit, max_priority, max_net, worker_users, oversubscribe,
      swap_host_memory, worker_memory, image_store_max, mode, overhead, worker_calls;
  bool trust_tenants = false, debuggable = false;
  uint32_t park_after_seconds = 0, grace_seconds = 0, max_sessions = 0, max_tenant_sessions = 0;
};

Status Merge(Flags& flags, const CLI::App& command, server::ServeOptions* options) {
  if (!flags.config.empty()) {
    FARCALL_TRY(server::ReadServeConfig(flags.config, options));
  } else if (access(kSystemConfig, F_OK) == 0) {
    FARCALL_TRY(server::ReadServeConfig(kSystemConfig, options));
  }
  if (!flags.listen.empty()) {
    options->listen = flags.listen;
  }
  if (!flags.device.empty()) {
    options->device = flags.device;
  }
  if (!flags.gpus.empty()) {
    options->gpus = flags.gpus;
  }
  if (command.count("--grace") != 0) {
    options->grace_seconds = flags.grace_seconds;
  }
  if (command.count("--max-sessions") != 0) {
    options->max_sessions = flags.max_sessions;
  }
  if (command.count("--max-tenant-sessions") != 0) {
    options->max_tenant_sessions = flags.max_tenant_sessions;
  }
  if (!flags.log_level.empty()) {
    options->log_level = flags.log_level;
  }
  options->report = flags.report;
  if (command.count("--park-after") != 0) {
    options->park_after_seconds = flags.park_after_seconds;
  }
  options->trust_tenants = options->trust_tenants || flags.trust_tenants;
  options->debuggable = options->debuggable || flags.debuggable;
  if (!flags.worker_calls.empty()) {
    Status set = server::SetWorkerCalls(flags.worker_calls, options);
    if (!set.ok()) {
      return {Code::kInvalid, "--worker-calls: " + set.message()};
    }
  }
  if (!flags.overhead.empty()) {
    Status set = server::SetOverhead(flags.overhead, options);
    if (!set.ok()) {
      return {Code::kInvalid, "--overhead: " + set.message()};
    }
  }
  if (!flags.oversubscribe.empty()) {
    Result<uint32_t> factor = server::ParseFactor(flags.oversubscribe);
    if (!factor.ok()) {
      return {Code::kInvalid, "--oversubscribe " + factor.status().message()};
    }
    options->oversubscribe_milli = *factor;
  }
  if (!flags.control.empty()) {
    options->control = flags.control;
  }
  if (!flags.audit.empty()) {
    options->audit = flags.audit;
  }
  if (!flags.metrics.empty()) {
    options->metrics = flags.metrics;
  }
  if (!flags.pool.empty()) {
    options->pool.url = flags.pool;
  }
  if (!flags.pool_ca.empty()) {
    options->pool.ca_file = flags.pool_ca;
  }
  if (!flags.pool_name.empty()) {
    options->pool.name = flags.pool_name;
  }
  if (!flags.advertise.empty()) {
    options->pool.advertise = flags.advertise;
  }
  if (!flags.pool_token_file.empty()) {
    Result<std::string> token = server::ReadTokenFile(flags.pool_token_file);
    if (!token.ok()) {
      return token.status();
    }
    options->pool.join_token = *token;
  }
  for (auto [name, text, bytes] :
       {std::tuple("--mem", flags.memory, &options->memory_bytes),
        std::tuple("--swap-host-mem", flags.swap_host_memory, &options->swap_host_bytes),
        std::tuple("--host-mem", flags.host_memory, &options->host_memory_bytes),
        std::tuple("--worker-memory", flags.worker_memory, &options->worker_memory_bytes),
        std::tuple("--image-store-max", flags.image_store_max, &options->image_store_bytes)}) {
    Result<uint64_t> parsed = text.empty() ? *bytes : server::ParseBytes(text);
    if (!parsed.ok()) {
      return {Code::kInvalid, std::string(name) + ": " + parsed.status().message()};
    }
    *bytes = *parsed;
  }
  for (auto [name, text] :
       {std::pair("max_share", flags.max_share), std::pair("max_limit", flags.max_limit),
        std::pair("max_priority", flags.max_priority)}) {
    Status set = text.empty() ? Status() : server::SetPolicy(name, text, &options->compute);
    if (!set.ok()) {
      return {Code::kInvalid, std::string(name) + ": " + set.message()};
    }
    if (!text.empty()) {
      server::NotePolicy(name, options);
    }
  }
  if (!flags.mode.empty()) {
    Result<server::DeviceModes> modes = server::ParseModes(flags.mode);
    if (!modes.ok()) {
      return {Code::kInvalid, "--mode " + modes.status().message()};
    }
    options->modes = *modes;
  }
  if (!flags.max_net.empty() && !ParseByteRate(flags.max_net, &options->max_net_bytes_per_s)) {
    return {Code::kInvalid, "--max-net '" + flags.max_net + "': " + kByteRateForm};
  }
  if (!flags.worker_users.empty()) {
    Result<server::UserRange> range = server::ParseUserRange(flags.worker_users);
    if (!range.ok()) {
      return {Code::kInvalid, "--worker-users: " + range.status().message()};
    }
    options->worker_users = *range;
  }
  if (!flags.token.empty()) {
    server::SetToken(&flags.token, options);
  }
  if (!flags.token_file.empty()) {
    Result<std::string> token = server::ReadTokenFile(flags.token_file);
    if (!token.ok()) {
      return token.status();
    }
    server::SetToken(&*token, options);
  }
  if (!flags.token_verifier.empty()) {
    FARCALL_TRY(server::ReadTokenVerifiers(flags.token_verifier, &options->tokens));
  }
  return {};
}

}  // namespace

void AddServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("serve", "Serves this machine's devices");
  command->add_option("--listen", flags->listen, "URL to listen on, may be repeated")
      ->default_str(server::kDefaultListenUrl);
  command
      ->add_option("--device", flags->device,
                   "auto, cuda, cpu, dry (cpu:PROFILE, dry:PROFILE), or the path of a libcuda.so.1")
      ->default_str("auto");
  command->add_option("--gpus", flags->gpus, "which devices, as CUDA_VISIBLE_DEVICES lists them");
  command->add_option("--mode", flags->mode,
                      "how vGPUs share a device: slice (default), exclusive, mps or mig; by device "
                      "as 0=exclusive,1=slice");
  command->add_option("--token", flags->token,
                      "what clients must know (others on this machine can see it: better a file)");
  command->add_option("--token-file", flags->token_file, "file whose first line is the token");
  command->add_option("--token-verifier", flags->token_verifier,
                      "file of verifiers that `farcall token new --verifier` made, one a line: the "
                      "server takes their tokens without having them");
  command->add_option("--mem", flags->memory,
                      "memory of a vGPU on each device, such as 4GiB (default: all of it)");
  command
      ->add_option("--host-mem", flags->host_memory,
                   "this machine's memory that a vGPU may have locked: mapped and registered host "
                   "memory")
      ->default_str("4GiB");
  command->add_option(
      "--max-share", flags->max_share,
      "share of a device's time a vGPU may be promised, such as 75% (default: 50%; all in a pool)");
  command->add_option("--max-limit", flags->max_limit,
                      "most of a device's time a vGPU gets, such as 80% (default: all)");
  command->add_option("--max-net", flags->max_net,
                      "bytes a second that a vGPU gets of the network, both ways together, such as "
                      "500MB/s (default: no bound)");
  command->add_option("--max-priority", flags->max_priority,
                      "highest class a client may ask for: high, normal (default) or low; in a "
                      "pool the default is high");
  command->add_option("--oversubscribe", flags->oversubscribe,
                      "lend so many times a device's memory: sessions that idle are swapped to "
                      "this machine's (default: 1)");
  command
      ->add_option("--overhead", flags->overhead,
                   "what the driver takes for a session beside its allocations (contexts, machine "
                   "code) counts against the quota of its vGPU (tenant), or is the host's (host)")
      ->default_str("tenant");
  command->add_option("--swap-host-mem", flags->swap_host_memory,
                      "this machine's memory for what is swapped out (default: half of it)");
  command
      ->add_option("--park-after", flags->park_after_seconds,
                   "a session that idles so many seconds leaves the device until it works again "
                   "(default: 0, it stays)")
      ->check(CLI::Range(0, 86400));
  command->add_option("--grace", flags->grace_seconds, "seconds a session outlives its lost link")
      ->default_str("60");
  command->add_option("--max-sessions", flags->max_sessions, "sessions at once")
      ->default_str("256")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--max-tenant-sessions", flags->max_tenant_sessions,
                   "of them, those of one token, or with a single token those of one address; "
                   "a pool's claims have bounds of their own")
      ->default_str("64")
      ->check(CLI::Range(1, 4096));
  command->add_option("--worker-users", flags->worker_users,
                      "range of user ids, such as 700000-700255: a vGPU's workers run as one of "
                      "its own (needs root)");
  command
      ->add_option("--worker-calls", flags->worker_calls,
                   "a system call that is not on the list of those that workers need: refuse it, "
                   "or report it in the log and allow it (for finding out what a driver needs)")
      ->default_str("refuse");
  command->add_flag("--trust-tenants", flags->trust_tenants,
                    "tenants trust one another: serve several of them, and compile for them, also "
                    "where the kernel has no Landlock; their workers may write all of /dev/shm");
  command->add_flag("--debuggable", flags->debuggable,
                    "let debuggers of the same user attach to the server and its workers; for "
                    "development");
  command->add_option(
      "--worker-memory", flags->worker_memory,
      "this machine's memory that the workers of a vGPU may take, such as 16GiB, in a "
      "cgroup of theirs (needs root or a delegated cgroup of version 2)");
  command
      ->add_option("--image-store-max", flags->image_store_max,
                   "disk space for the images and kernel caches of all tenants together; what was "
                   "used longest ago goes; 0: no bound")
      ->default_str("32GiB");
  command->add_option("--config", flags->config,
                      "settings (TOML); default /etc/farcall/server.toml if it exists");
  command->add_option("--log-level", flags->log_level, "off, error, warn, info, debug, trace")
      ->default_str("info");
  command->add_option("--control", flags->control,
                      "socket for farcall ps, top and quota; off: none (default: PORT.sock in "
                      "/run/farcall, $XDG_RUNTIME_DIR/farcall or /tmp/farcall-UID)");
  command->add_option("--metrics", flags->metrics,
                      "host:port where Prometheus may ask (default: none)");
  command->add_option("--audit", flags->audit,
                      "file to which each session's start and end, each refusal and each change of "
                      "a quota is appended (JSON lines)");
  command->add_option(
      "--pool", flags->pool,
      "join a pool (the http:// or https:// URL of its ready line): only its leases open "
      "sessions here");
  command->add_option("--pool-ca", flags->pool_ca,
                      "of an https:// pool: file of the certificates to believe (default: the "
                      "machine's)");
  command->add_option("--pool-name", flags->pool_name,
                      "this host's name in the pool (default: the machine's)");
  command->add_option("--pool-token-file", flags->pool_token_file,
                      "file whose first line is a join token of the pool; this host needs it once, "
                      "and keeps what it gets for it in FARCALL_CACHE_DIR");
  command->add_option("--advertise", flags->advertise,
                      "URL by which the pool's clients reach this server (default: --listen)");
  command->add_option(
      "--report", flags->report,
      "file for what was served, written at exit: sessions, bytes, peak memory (JSON)");
  command->footer(
      "Example: farcall serve --listen tcp://0.0.0.0:7717 --token-file /etc/farcall/token --mem "
      "8GiB");
  command->callback([flags, command, &exit_code] {
    server::ServeOptions options;
    Status merged = Merge(*flags, *command, &options);
    if (!merged.ok()) {
      const std::string line = Printable(merged.message(), kMaxMessageBytes);
      std::fprintf(stderr, "farcall serve: %s\n", line.c_str());
      exit_code = server::kExitUsage;
      return;
    }
    exit_code = server::Serve(options);
  });
}

}  // namespace farcall::cli
