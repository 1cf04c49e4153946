// SPDX-License-Identifier: Apache-2.0
#include "client-shim/thin/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "client-shim/core/report/log.h"
#include "client-shim/core/report/said_once.h"
#include "client-shim/thin/call.h"
#include "client-shim/thin/forked.h"
#include "proto/codec.h"
#include "settings/log_line.h"

namespace farcall::thin {

namespace {

struct Found {
  void* libcuda = nullptr;
  const client::LibraryChannel* channel = nullptr;
};

std::atomic<const client::LibraryChannel*> g_channel{nullptr};
std::atomic<bool> g_open{false};
void* g_libcuda = nullptr;
int64_t g_version = 0;
std::string* g_functions = nullptr;   // of the server's library, a bit each; null: not told
std::atomic<bool> g_is_child{false};  // of a fork
// Held while the server is asked: a fork does not wait for it, the child gets a new one.
std::mutex* g_mutex = new std::mutex;

using GetExportTable = int (*)(const void** table, const void* id);

Found ChannelOf(void* libcuda) {
  if (libcuda == nullptr) return {};
  auto get = reinterpret_cast<GetExportTable>(dlsym(libcuda, "cuGetExportTable"));
  const void* table = nullptr;
  if (get == nullptr || get(&table, client::kLibraryChannelId) != 0) return {};
  auto channel = static_cast<const client::LibraryChannel*>(table);
  if (channel->bytes != sizeof(*channel)) return {};
  return {libcuda, channel};
}

std::string FolderOf(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

// The one that this process uses; else the one of our tree, whose thin/ this file lies in; else the
// one that the loader finds.
Found Look() {
  constexpr const char* kName = "libcuda.so.1";
  Found found = ChannelOf(dlopen(kName, RTLD_NOW | RTLD_NOLOAD));
  if (found.channel != nullptr) return found;
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&Look), &self) != 0 &&
      std::strchr(self.dli_fname, '/') != nullptr) {
    char* real = realpath(self.dli_fname, nullptr);
    std::string folder = FolderOf(real == nullptr ? self.dli_fname : real);
    free(real);
    for (const char* up : {"../", ""}) {
      found = ChannelOf(dlopen((folder + up + kName).c_str(), RTLD_NOW | RTLD_LOCAL));
      if (found.channel != nullptr) return found;
    }
  }
  return ChannelOf(dlopen(kName, RTLD_NOW | RTLD_LOCAL));
}

void AfterForkChild() {
  g_mutex = new std::mutex;
  g_is_child.store(true);
}

__attribute__((constructor)) void RegisterHooks() {
  pthread_atfork(nullptr, nullptr, AfterForkChild);
}

// One line, as Open() is tried again and again.
int SayLacking() {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    LogLine(static_cast<int>(client::LogLevel::kError),
            std::string("the server has no ") + kSoname + ", nor another release of " +
                kLibrary.name + ": name its folder in the server's FARCALL_LIBRARIES");
  }
  return kLibrary.missing;
}

int AskToOpen() {
  if (Channel().server_lacks(kLibrary.id)) return SayLacking();
  const bool tells = Channel().server_has(SessionFeature::kLibraryLacks);
  Call call(kLibraryOpen);
  std::string text, functions;
  if (tells) call.Value<uint64_t>(1);
  call.OutValue(&g_version);
  call.OutText(&text);
  if (tells) call.OutText(&functions);
  int status = call.Ask();
  if (status == 0 && tells) g_functions = new std::string(std::move(functions));
  if (status == 0) return 0;
  if (!text.empty()) LogLine(static_cast<int>(client::LogLevel::kError), "the server: " + text);
  return kLibrary.missing;
}

}  // namespace

const client::LibraryChannel* FindChannel() {
  const client::LibraryChannel* channel = g_channel.load(std::memory_order_acquire);
  if (channel != nullptr) [[likely]]
    return channel;
  std::lock_guard lock(*g_mutex);
  Found found = Look();
  if (found.channel == nullptr) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
      char head[kFarcallLogHeadBytes];
      FarcallLogHead(head, sizeof(head), "error", "client");
      std::fprintf(stderr,
                   "%s%s finds no libcuda.so.1 of its own build: put lib/farcall into "
                   "LD_LIBRARY_PATH beside lib/farcall/thin\n",
                   head, kSoname);
    }
    return nullptr;
  }
  g_libcuda = found.libcuda;
  g_channel.store(found.channel, std::memory_order_release);
  return found.channel;
}

bool IsForked() {
  if (!g_is_child.load(std::memory_order_relaxed)) [[likely]]
    return false;
  const client::LibraryChannel* channel = g_channel.load(std::memory_order_acquire);
  return channel != nullptr && channel->is_forked();
}

const client::LibraryChannel& Channel() {
  return *g_channel.load(std::memory_order_acquire);
}

int Open() {
  if (IsForked()) return kLibrary.missing;
  const client::LibraryChannel* channel = FindChannel();
  if (channel == nullptr) return kLibrary.missing;
  int entered = kLibrary.contextless ? channel->begin() : channel->enter();
  if (entered != 0) return entered == 2 ? kLibrary.memory : kLibrary.missing;
  if (g_open.load(std::memory_order_acquire)) [[likely]]
    return 0;
  std::lock_guard lock(*g_mutex);
  if (g_open.load()) return 0;
  int status = AskToOpen();
  if (status == 0) g_open.store(true, std::memory_order_release);
  return status;
}

int64_t ServerVersion() {
  return g_version;
}

int VersionPart(int part) {
  int64_t version = Open() == 0 ? g_version : 0;
  if (version == 0) return part == 0 ? kMajor : 0;
  return static_cast<int>(part == 0   ? version >> 20
                          : part == 1 ? version >> 10 & 1023
                                      : version & 1023);
}

bool IsLacking(uint16_t function) {
  if (g_functions == nullptr || function >= kLibraryPut) return false;
  const size_t byte = function / 8;
  return byte >= g_functions->size() || ((*g_functions)[byte] >> function % 8 & 1) == 0;
}

int StatusOf(int cuda_result) {
  switch (cuda_result) {
    case 0:
      return 0;
    case 1:    // INVALID_VALUE
    case 400:  // INVALID_HANDLE: a stream that is none
      return kLibrary.value;
    case 2:  // OUT_OF_MEMORY
      return kLibrary.memory;
    case 3:  // NOT_INITIALIZED: a forked child
    case 4:  // DEINITIALIZED
      return kLibrary.missing;
    case 801:  // NOT_SUPPORTED: an older server
      return kLibrary.unsupported;
    default:
      return kLibrary.failed;
  }
}

int Refuse(const char* function, const std::string& why) {
  static auto* said = new client::SaidOnce;
  if (!said->IsNew(function)) return kLibrary.unsupported;
  LogLine(static_cast<int>(client::LogLevel::kWarn),
          std::string(function) + " is not supported" + why);
  return kLibrary.unsupported;
}

void LogLine(int level, const std::string& line) {
  const client::LibraryChannel* channel = FindChannel();
  if (channel != nullptr) channel->log(level, line.c_str());
}

void* DriverFunction(const char* name) {
  return FindChannel() == nullptr ? nullptr : dlsym(g_libcuda, name);
}

}  // namespace farcall::thin
