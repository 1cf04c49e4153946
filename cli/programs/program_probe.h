// SPDX-License-Identifier: Apache-2.0
// Runs a program once and notes which libraries it got from where, and what our driver library had
// to say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/programs/loader_log.h"
#include "proto/status.h"

namespace farcall::cli {

struct ProgramReport {
  int exit_code = 0;  // 128 + n for signal n; 127 not found, 126 not executable
  bool timed_out = false;
  std::vector<LibraryLookup> lookups;  // of all its processes, each (name, file, reason) once
  std::vector<std::string> log;        // the shim's lines, each once, in order
};

// Runs `command` with `environment` on top of ours for at most `seconds`; its output goes to
// stderr.
//   Errors  kUnavailable (no folder for the logs, no process)
Result<ProgramReport> ProbeProgram(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment, int seconds);

}  // namespace farcall::cli
