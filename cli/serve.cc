// SPDX-License-Identifier: Apache-2.0
// `farcall serve`: flags over the configuration file over defaults.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "cli/commands.h"
#include "cli/serve_flags.h"
#include "proto/byte_rate.h"
#include "proto/printable.h"
#include "server/supervisor/serve_options.h"
#include "server/supervisor/supervisor.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

constexpr char kSystemConfig[] = "/etc/farcall/server.toml";

Status Merge(ServeFlags& flags, const CLI::App& command, server::ServeOptions* options) {
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
  if (command.count("--drain") != 0) {
    options->drain_seconds = flags.drain_seconds;
  }
  if (command.count("--max-sessions") != 0) {
    options->max_sessions = flags.max_sessions;
  }
  if (command.count("--max-tenant-sessions") != 0) {
    options->max_tenant_sessions = flags.max_tenant_sessions;
  }
  if (command.count("--warm-workers") != 0) {
    options->warm_workers = flags.warm_workers;
  }
  if (!flags.log_level.empty()) {
    options->log_level = flags.log_level;
  }
  options->report = flags.report;
  if (command.count("--park-after") != 0) {
    options->park_after_seconds = flags.park_after_seconds;
  }
  options->plaintext = options->plaintext || flags.plaintext;
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
  for (const auto& [given, into] : {std::pair(&flags.tls_cert, &options->tls.certificate),
                                    std::pair(&flags.tls_key, &options->tls.key),
                                    std::pair(&flags.tls_client_ca, &options->tls.authorities),
                                    std::pair(&flags.tls_crl, &options->tls.revoked),
                                    std::pair(&flags.pool_ca, &options->pool.tls.authorities),
                                    std::pair(&flags.pool_cert, &options->pool.tls.certificate),
                                    std::pair(&flags.pool_key, &options->pool.tls.key)}) {
    if (!given->empty()) {
      *into = *given;
    }
  }
  for (const auto& [name, set] :
       {std::pair("--shm", flags.shm.empty() ? Status() : server::SetShm(flags.shm, options)),
        std::pair("--shm-users", flags.shm_users.empty()
                                     ? Status()
                                     : server::SetShmUsers(flags.shm_users, options))}) {
    if (!set.ok()) {
      return {Code::kInvalid, std::string(name) + ": " + set.message()};
    }
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
        std::tuple("--tenant-mem", flags.tenant_memory, &options->tenant_memory_bytes),
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
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serves this machine's devices");
  AddServeFlags(command, flags.get());
  command->footer(
      "Example: farcall serve --listen tls://0.0.0.0:7717 --token-file /etc/farcall/token "
      "--tls-cert gpu-host.pem --tls-key gpu-host.key --mem 8GiB");
  command->callback([flags, command, &exit_code] {
    server::ServeOptions options;
    Status merged = Merge(*flags, *command, &options);
    if (!merged.ok()) {
      const std::string line = Printable(merged.message(), kMaxMessageBytes);
      std::fprintf(stderr, "farcall serve: %s\n", line.c_str());
      exit_code = kExitUsage;
      return;
    }
    exit_code = server::Serve(options);
  });
}

}  // namespace farcall::cli
