// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nvml/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "client-shim/core/report/log.h"
#include "client-shim/nvml/cache.h"
#include "settings/log_line.h"

namespace farcall::nvml {

namespace {

std::mutex* g_mutex = new std::mutex;
std::atomic<const client::NvmlChannel*> g_channel{nullptr};
std::atomic<int> g_users{0};

// A handle is the address of one of these: recognised without looking at what it points to.
char g_handles[kMaxDevices];

using GetExportTable = int (*)(const void** table, const void* id);

const client::NvmlChannel* ChannelOf(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto get = reinterpret_cast<GetExportTable>(dlsym(library, "cuGetExportTable"));
  const void* table = nullptr;
  if (get == nullptr || get(&table, client::kNvmlChannelId) != 0) return nullptr;
  auto channel = static_cast<const client::NvmlChannel*>(table);
  return channel->bytes == sizeof(*channel) ? channel : nullptr;
}

std::string FolderOf(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

// Beside this very file, also where a link to it lies; else the libcuda.so.1 this process would
// load.
const client::NvmlChannel* FindChannel() {
  constexpr const char* kName = "libcuda.so.1";
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&FindChannel), &self) != 0 &&
      std::strchr(self.dli_fname, '/') != nullptr) {
    if (auto found = ChannelOf(FolderOf(self.dli_fname) + kName)) return found;
    char* real = realpath(self.dli_fname, nullptr);
    std::string beside = real == nullptr ? "" : FolderOf(real) + kName;
    free(real);
    if (auto found = ChannelOf(beside)) return found;
  }
  return ChannelOf(kName);
}

void BeforeFork() {
  g_mutex->lock();
  LockCache();
}
void AfterForkParent() {
  UnlockCache();
  g_mutex->unlock();
}
void AfterForkChild() {
  ForgetCache();
  g_mutex = new std::mutex;
}

__attribute__((constructor)) void RegisterHooks() {
  pthread_atfork(BeforeFork, AfterForkParent, AfterForkChild);
}

}  // namespace

nvmlReturn_t Initialise() {
  std::lock_guard lock(*g_mutex);
  if (g_channel.load() == nullptr) {
    g_channel.store(FindChannel());
    if (g_channel.load() == nullptr) {
      char head[kFarcallLogHeadBytes];
      FarcallLogHead(head, sizeof(head), "error", "libnvidia-ml");
      std::fprintf(stderr, "%sno libcuda.so.1 of its own build is found: keep both in one folder\n",
                   head);
      return NVML_ERROR_LIBRARY_NOT_FOUND;
    }
  }
  if (g_channel.load()->join() != 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  g_users.fetch_add(1);
  return NVML_SUCCESS;
}

nvmlReturn_t Shutdown() {
  std::lock_guard lock(*g_mutex);
  if (g_users.load() == 0) return NVML_ERROR_UNINITIALIZED;
  g_users.fetch_sub(1);
  return NVML_SUCCESS;
}

nvmlReturn_t CheckReady() {
  if (g_users.load() == 0) return NVML_ERROR_UNINITIALIZED;
  return FromCuda(g_channel.load()->join());
}

const client::NvmlChannel& Channel() {
  return *g_channel.load();
}

nvmlReturn_t FromCuda(int status) {
  switch (status) {
    case 0:
      return NVML_SUCCESS;
    case 3:  // CUDA_ERROR_NOT_INITIALIZED: a child of a process that had begun
    case 4:  // CUDA_ERROR_DEINITIALIZED: the process is ending
      return NVML_ERROR_UNINITIALIZED;
    case 801:  // CUDA_ERROR_NOT_SUPPORTED: a server without NVML
      return NVML_ERROR_NOT_SUPPORTED;
    default:
      return NVML_ERROR_GPU_IS_LOST;
  }
}

int IndexOf(nvmlDevice_t device) {
  auto address = reinterpret_cast<uintptr_t>(device),
       first = reinterpret_cast<uintptr_t>(g_handles);
  if (address < first || address - first >= static_cast<uintptr_t>(Channel().device_count()))
    return -1;
  return static_cast<int>(address - first);
}

nvmlDevice_t HandleOf(int index) {
  return reinterpret_cast<nvmlDevice_t>(&g_handles[index]);
}

nvmlReturn_t Refuse(NvmlCall call, nvmlReturn_t code) {
  static std::atomic<bool> said[kNvmlCallCount];
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (!said[static_cast<size_t>(call)].exchange(true)) {
    std::string line =
        std::string(kNvmlCallNames[static_cast<size_t>(call)]) +
        (code == NVML_ERROR_NO_PERMISSION ? ": not a tenant's to change" : " is not supported");
    Channel().log(static_cast<int>(client::LogLevel::kInfo), line.c_str());
  }
  return code;
}

}  // namespace farcall::nvml
