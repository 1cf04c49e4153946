// SPDX-License-Identifier: Apache-2.0
// What a program needs in its environment to find the remote device: shared by `run` and `env`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags/quota_flags.h"

namespace farcall::cli {

// The folder of our libcuda.so.1, from where this binary lies; "" if it is not there.
std::string DriverLibraryFolder();
// The path of this binary.
std::string OwnPath();

// The folder that XLA is told for its CUDA data: in the user's cache, filled by the program that
// needs it (client-shim/cudart/code/libdevice.h). "": switched off, or no cache.
//   endpoint  whose file it is; "": of the settings
std::string CudaDataRoot(std::string endpoint = "");

struct ClientSettings {
  std::string endpoint, stats, count, claim;
  std::string ca, cert, key;  // of tls://: PEM files
  QuotaFlags quota;
  bool thin = false;
  bool is_private = false;  // `endpoint` is of a server of our own (settings.h, ServerScope)
};
// --ca, --cert and --key.
void AddTlsFlags(CLI::App* command, ClientSettings* settings);
// Puts them into this process's environment, before it asks a server itself.
void UseTlsFiles(const ClientSettings& settings);

// Names and values, LD_LIBRARY_PATH with what the environment holds already.
std::vector<std::pair<std::string, std::string>> ClientEnvironment(const ClientSettings& settings);

// Puts the loader's auditor into this process's environment: a program that has an RPATH or a path
// of its own for one of our libraries gets ours all the same. Nothing where it is not installed.
void AddAuditor();
// The same as a variable, with what the environment holds already; "" where it is not installed.
std::string AuditorVariable();

}  // namespace farcall::cli
