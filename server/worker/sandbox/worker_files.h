// SPDX-License-Identifier: Apache-2.0
// Which files a worker may reach, and where its device keeps compiled kernels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

class LandlockRules;
struct WorkerSetup;

// What any program of ours reads to begin, to load libraries and to know the machine.
void AllowProgram(LandlockRules* rules);
// None, for a process that only looks at the devices.
void ForgetKernelCaches();

// The folders of libraries, toolkits and the device's own, and what any program reads to begin.
// `device_path`: of libcuda; without a slash: the loader finds it. What is not there is listed too.
std::vector<std::string> ReadableFiles(const std::string& device_path);

// The number of the descriptor of the device's compiled kernels: known before the folder is.
inline constexpr int kKernelsDescriptor = 64;

struct WorkerFiles {
  std::vector<std::string> readable;
  int images = -1;            // a descriptor of the tenant's images, which it reads; -1: none
  int kernels = -1;           // and of the device's compiled kernels, which it writes too
  std::vector<int> caches;    // descriptors of all tenants' folders, before its tenant is known
  std::string shared_folder;  // where its device shares with the vGPU's others; empty: nowhere
  bool is_mps = false;
  bool uses_ucx = false;        // and the network's ports and cards
  bool uses_verbs = false;      // and cards
  bool trusts_tenants = false;  // all of /dev/shm may be written, as in mode mps
};

// A worker's. `folders`: the descriptors that came with the setup, in its order. Lets the device's
// library keep compiled kernels in the folder that is for them, and nowhere else: it loads them
// again as machine code.
//   Before libcuda is loaded
WorkerFiles TakeFiles(const WorkerSetup& setup, std::span<const int> folders);

// Opens what holds every tenant's images, and every tenant's compiled kernels where the operator
// has chosen a folder for them. `kernel_variable`: as WorkerSetup has it.
std::vector<int> OpenAllCaches(const std::string& kernel_variable);
// For a worker whose tenant is not known yet: the folder of compiled kernels will be there.
//   Before libcuda is loaded
void PromiseKernelCache(const std::string& kernel_variable);

// From here on this thread and those it starts read the files that are listed, the device's nodes
// and the tenant's images, write the tenant's compiled kernels and the vGPU's shared folder, and
// reach no other file, port or process.
//   Errors  kUnavailable: the kernel has no Landlock
//   Thread  the only one
Status ConfineFiles(const WorkerFiles& files);

}  // namespace farcall::server
