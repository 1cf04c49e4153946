// SPDX-License-Identifier: Apache-2.0
// Which files a worker may reach, and where its device keeps compiled kernels.
#pragma once

#include <string>

#include "proto/status.h"

namespace farcall::server {

class LandlockRules;

// Device libraries keep compiled kernels on disk and load them again as machine code: each tenant's
// lie in folders of its own, so that none can leave code for another. Sets the variables that name
// them; an operator's own choice is the place above.
//   Before libcuda is loaded
void ChooseKernelCaches(const std::string& tenant_folder);
// None, for a process that only looks at the devices.
void ForgetKernelCaches();

struct WorkerFiles {
  std::string device_path;    // of libcuda; without a slash: the loader finds it
  std::string tenant_folder;  // the tenant's own; empty: none
  std::string shared_folder;  // where its device shares with the vGPU's others; empty: nowhere
  bool is_mps = false;
  bool trusts_tenants = false;  // all of /dev/shm may be written, as in mode mps
};

// What any program of ours reads to begin, to load libraries and to know the machine.
void AllowProgram(LandlockRules* rules);

// From here on this thread and those it starts read the folders of libraries, toolkits and the
// device's own nodes, write the tenant's caches and the vGPU's shared folder, and reach no other
// file, port or process.
//   Errors  kUnavailable: the kernel has no Landlock
//   Thread  the only one
Status ConfineFiles(const WorkerFiles& files);

}  // namespace farcall::server
