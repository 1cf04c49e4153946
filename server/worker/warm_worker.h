// SPDX-License-Identifier: Apache-2.0
// A worker that is started before its session comes: its device library is loaded, and as a rule
// initialised, in the sandbox of every worker. The layer for its tenant's files is added when the
// session is there, so that until then the process has one thread, and has read nothing of a
// tenant.
#pragma once

#include <string>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/status.h"
#include "server/worker/sandbox/worker_files.h"

namespace farcall::server {

// The name of its process, as ps shows it, until it has a session.
inline constexpr char kWarmWorkerName[] = "farcall-warm";
// What it says if a layer for files can no longer be built for all of it.
inline constexpr char kHasThreads[] = "its device library has started threads";

struct WarmStart {
  std::string device_path, kernel_variable;  // as WorkerSetup has them
  bool initialises = true;                   // cuInit too
};

struct WarmDevice {
  DriverApi api;
  bool is_initialised = false;
};

// Whether this kernel has Landlock, without which none can be.
bool CanWarmUp();
// `caches`: descriptors of all tenants' folders (OpenAllCaches), which it closes. They may be
// reached until the tenant's layer is there.
//   Errors  kUnavailable: no Landlock, no device, kHasThreads
//   Thread  the only one, as its user
Status WarmUp(const WarmStart& start, const std::vector<int>& caches, WarmDevice* device);
// It has a session now: from here on this process reaches the files of its tenant alone.
//   Errors  kUnavailable, kHasThreads
//   Thread  the only one
Status NarrowTo(const WorkerFiles& files);

}  // namespace farcall::server
