// SPDX-License-Identifier: Apache-2.0
#include "server/worker/warm_worker.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

#include "server/confine/landlock.h"
#include "server/device/device_library.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/shared_folders.h"

namespace farcall::server {

namespace {

// ThreadSanitizer's own, which touches no file.
#if defined(__SANITIZE_THREAD__)
constexpr size_t kRuntimeThreads = 1;
#else
constexpr size_t kRuntimeThreads = 0;
#endif

Status CheckOneThread() {
  size_t threads = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = tasks == nullptr ? nullptr : readdir(tasks))
    threads += entry->d_name[0] != '.' ? 1 : 0;
  if (tasks != nullptr) closedir(tasks);
  return threads == 1 + kRuntimeThreads ? Status() : Status(Code::kUnavailable, kHasThreads);
}

}  // namespace

bool CanWarmUp() {
  return LandlockRules::Version() > 0;
}

Status WarmUp(const WarmStart& start, const std::vector<int>& caches, WarmDevice* device) {
  PromiseKernelCache(start.kernel_variable);
  SandboxRules rules;
  rules.files.readable = ReadableFiles(start.device_path);
  rules.files.caches = caches;
  if (const char* folder = std::getenv(kSharedFolderVariable)) rules.files.shared_folder = folder;
  Status entered = CanWarmUp() ? EnterSandbox(rules) : Status(Code::kUnavailable, kNoLandlock);
  for (int fd : caches) close(fd);
  FARCALL_TRY(entered);
  FARCALL_TRY(LoadDeviceLibrary(start.device_path, &device->api));
  if (start.initialises) {
    if (CUresult result = device->api.cuInit(0); result != CUDA_SUCCESS)
      return {Code::kUnavailable, "cuInit: " + ErrorWithCode(result)};
    device->is_initialised = true;
  }
  return CheckOneThread();
}

Status NarrowTo(const WorkerFiles& files) {
  FARCALL_TRY(CheckOneThread());
  FARCALL_TRY(ConfineFiles(files));
  prctl(PR_SET_NAME, "farcall-worker", 0, 0, 0);
  return {};
}

}  // namespace farcall::server
