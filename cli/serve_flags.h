// SPDX-License-Identifier: Apache-2.0
// The flags of `farcall serve` as they are typed; serve.cc checks them and lays them over the
// configuration file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::cli {

// "" and 0: not given.
struct ServeFlags {
  std::vector<std::string> listen;
  std::string device, gpus, token, token_file, token_verifier, memory, tenant_memory, host_memory,
      config, log_level, report, control, metrics, audit, pool, pool_name, pool_token_file, pool_ca,
      pool_cert, pool_key, tls_cert, tls_key, tls_client_ca, tls_crl, shm, shm_users;
  std::vector<std::string> advertise;
  std::string max_share, max_limit, max_priority, max_net, worker_users, oversubscribe,
      swap_host_memory, worker_memory, image_store_max, mode, overhead, worker_calls;
  bool plaintext = false, trust_tenants = false, debuggable = false;
  uint32_t park_after_seconds = 0, grace_seconds = 0, drain_seconds = 0, max_sessions = 0,
           max_tenant_sessions = 0, warm_workers = 0;
};

// `flags` has to live as long as `command`.
void AddServeFlags(CLI::App* command, ServeFlags* flags);

}  // namespace farcall::cli
