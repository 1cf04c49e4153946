// SPDX-License-Identifier: Apache-2.0
// The layers of a worker's sandbox that need no privilege: it speaks for a stranger, and NVIDIA's
// libraries run in it on a stranger's data.
#pragma once

#include <cstdint>

#include "proto/status.h"
#include "server/worker/sandbox/worker_files.h"

namespace farcall::server {

inline constexpr char kNoLandlock[] =
    "this kernel has no Landlock, so the server takes one tenant at a time; a newer kernel "
    "(5.13), or --trust-tenants, lifts that";

// The first step, before anything of a session is there: no new privileges, no core files, no
// terminal, no look into its memory; it ends when its supervisor says so, not by a terminal's
// signal.
// `name`: the process's, as ps shows it.
void Confine(const char* name = "farcall-worker");

// Of this process: nobody of the same user may attach to it or read its memory and environment.
void HideMemory();
void ShowMemory();

// It is killed when the thread that started it ends. After a change of user, which undoes it.
void EndWithParent();

// All but those of the mask `kept` that it has.
void DropCapabilities(uint64_t kept = 0);

struct SandboxRules {
  WorkerFiles files;
  bool trust_tenants = false;
  bool is_only_tenant = false;  // nobody else's session is on this server
  bool reports_calls = false;
  bool debuggable = false;
};

// The second step: files by Landlock, no capabilities, system calls by a list. For good.
//   Errors  kUnavailable: the kernel has no seccomp, or no Landlock and others' sessions
//   Thread  the only one; before libcuda is loaded
Status EnterSandbox(const SandboxRules& rules);

}  // namespace farcall::server
