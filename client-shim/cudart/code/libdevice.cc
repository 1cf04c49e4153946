// SPDX-License-Identifier: Apache-2.0
// XLA links libdevice.10.bc, a file of CUDA's toolkit, into the kernels that it makes, and looks
// for it in a few folders only. In a container without CUDA this is the one file that it lacks.
#include "client-shim/cudart/code/libdevice.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/core/channel/cuda_data.h"

extern char** environ;

namespace farcall::cudart {

namespace {

constexpr const char* kFlags = "XLA_FLAGS";
constexpr const char* kDataFlag = "--xla_gpu_cuda_data_dir";

bool HasLibdevice(const std::string& folder) {
  return access((folder + "/nvvm/libdevice/libdevice.10.bc").c_str(), R_OK) == 0;
}

// Whether objects were loaded since this was asked last.
bool HasNewObjects() {
  static std::atomic<unsigned long long> seen{0};
  unsigned long long now = 0;
  auto look = [](dl_phdr_info* info, size_t, void* user) {
    *static_cast<unsigned long long*>(user) = info->dlpi_adds;
    return 1;
  };
  dl_iterate_phdr(look, &now);
  return seen.exchange(now) != now;
}

// The folders of the objects that bring XLA.
std::vector<std::string> XlaFolders() {
  static std::atomic<bool> found{false};
  std::vector<std::string> folders;
  if (!HasNewObjects() && !found.load()) return folders;
  auto look = [](dl_phdr_info* info, size_t, void* user) {
    const char* path = info->dlpi_name;
    if (std::strstr(path, "xla") != nullptr || std::strstr(path, "tensorflow") != nullptr) {
      const std::string file = path;
      static_cast<std::vector<std::string>*>(user)->push_back(
          file.substr(0, std::min(file.rfind('/'), file.size())));
    }
    return 0;
  };
  dl_iterate_phdr(look, &folders);
  found.store(!folders.empty());
  return folders;
}

// Where XLA looks when it is told nothing.
bool FindsItself(const std::vector<std::string>& folders) {
  for (const char* folder : {"/usr/local/cuda", "/opt/cuda", "./cuda_sdk_lib", "."})
    if (HasLibdevice(folder)) return true;
  for (const std::string& folder : folders) {
    for (const char* to : {"/../nvidia/cu13", "/../../nvidia/cu13", "/../nvidia/cuda_nvcc",
                           "/../../nvidia/cuda_nvcc", "/cuda"})
      if (HasLibdevice(folder + to)) return true;
  }
  return access("libdevice.10.bc", R_OK) == 0;
}

const client::CudaDataTable* DataOf(void* libcuda) {
  auto get =
      reinterpret_cast<int (*)(const void**, const void*)>(dlsym(libcuda, "cuGetExportTable"));
  const void* table = nullptr;
  if (get == nullptr || get(&table, client::kCudaDataId) != 0) return nullptr;
  auto data = static_cast<const client::CudaDataTable*>(table);
  return data->bytes == sizeof(*data) ? data : nullptr;
}

// Of our libcuda.so.1. Loading it begins nothing.
const client::CudaDataTable* FindData(bool* begun) {
  void* libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (libcuda == nullptr) return nullptr;
  auto count = reinterpret_cast<int (*)(int*)>(dlsym(libcuda, "cuDeviceGetCount"));
  int devices = 0;
  *begun = count != nullptr && count(&devices) == 0;
  return DataOf(libcuda);
}

// As setenv, which may move the array of variables under another thread's getenv: here the old one
// stays, and a thread sees either.
void SetVariable(const std::string& name, const std::string& value) {
  char* entry = strdup((name + "=" + value).c_str());  // NOLINT: it stays in the environment
  if (entry == nullptr) return;
  size_t count = 0;
  for (; environ != nullptr && environ[count] != nullptr; ++count) {
    if (std::strncmp(environ[count], entry, name.size() + 1) == 0) {
      __atomic_store_n(&environ[count], entry, __ATOMIC_RELEASE);
      return;
    }
  }
  auto** grown = static_cast<char**>(malloc((count + 2) * sizeof(char*)));  // NOLINT: likewise
  if (grown == nullptr) return free(entry);
  if (count != 0) std::memcpy(grown, environ, count * sizeof(char*));
  grown[count] = entry;
  grown[count + 1] = nullptr;
  __atomic_store_n(&environ, grown, __ATOMIC_RELEASE);
}

// The user's flags with ours behind them; empty: theirs say where, or lie in a file.
std::string FlagsWith(const std::string& folder) {
  const char* before = getenv(kFlags);
  std::string flags = before == nullptr ? "" : before;
  const size_t first = flags.find_first_not_of(" \t\n");
  if (flags.find(kDataFlag) != std::string::npos) return "";
  if (first != std::string::npos && flags[first] != '-') return "";
  return flags + (flags.empty() ? "" : " ") + kDataFlag + "=" + folder;
}

// Whether XLA is then told of the folder: by the user, by `farcall run --thin`, or here.
bool IsNamed(const client::CudaDataTable* data, const std::string& folder) {
  const std::string named = std::string(kDataFlag) + "=" + folder;
  const std::string flags = FlagsWith(folder);
  if (flags.empty()) {
    const char* theirs = getenv(kFlags);
    return theirs != nullptr && std::strstr(theirs, named.c_str()) != nullptr;
  }
  SetVariable(kFlags, flags);
  data->tell(("XLA looks for the server's libdevice.10.bc by XLA_FLAGS: " + named +
              " (FARCALL_LIBDEVICE=0 leaves it alone)")
                 .c_str());
  return true;
}

}  // namespace

void OfferLibdevice() {
  enum Stage { kStart, kNamed, kDone };
  static std::atomic<int> stage{kStart};
  static auto* mutex = new std::mutex;
  if (stage.load(std::memory_order_acquire) == kDone) return;
  const std::vector<std::string> folders = XlaFolders();
  if (folders.empty()) return;
  std::unique_lock lock(*mutex, std::try_to_lock);  // never waits: a forked child may find it held
  if (!lock.owns_lock() || stage.load() == kDone) return;
  bool begun = false;
  const client::CudaDataTable* data = FindsItself(folders) ? nullptr : FindData(&begun);
  const char* folder = data == nullptr ? nullptr : data->folder();
  if (folder == nullptr || (stage.load() == kStart && !IsNamed(data, folder))) {
    stage.store(kDone, std::memory_order_release);
    return;
  }
  if (begun) data->fill();
  stage.store(begun ? kDone : kNamed, std::memory_order_release);
}

}  // namespace farcall::cudart
