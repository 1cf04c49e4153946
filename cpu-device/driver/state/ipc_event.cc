// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/ipc_event.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cpu-device/driver/base/log.h"

namespace farcall::cpu_device {
namespace {

constexpr uint32_t kSlots = 4096;
constexpr size_t kFileBytes = kSlots * sizeof(SharedCounts);
constexpr uint64_t kMagic = 0x544E564543504946;
constexpr const char* kPrefix = "farcall-device-events-";

struct HandleBytes {
  uint64_t magic = kMagic;
  uint64_t nonce = 0;
  int32_t pid = 0;
  uint32_t slot = 0;
};
static_assert(sizeof(HandleBytes) <= sizeof(CUipcEventHandle));

struct File {
  std::mutex mutex;
  SharedCounts* slots = nullptr;
  uint64_t nonce = 0;
  uint32_t next = 0;
  std::vector<uint32_t> free;
};

File& OwnFile() {
  static auto* file = new File;
  return *file;
}

// Of all processes that share events: /dev/shm, or what FARCALL_CPU_SHARED says.
const std::string& Folder() {
  static const std::string folder = [] {
    const char* chosen = getenv("FARCALL_CPU_SHARED");
    return std::string(chosen == nullptr || *chosen == '\0' ? "/dev/shm" : chosen);
  }();
  return folder;
}

std::string PathOf(int32_t pid, uint64_t nonce) {
  char name[96];
  snprintf(name, sizeof(name), "/%s%d-%016llx", kPrefix, pid,
           static_cast<unsigned long long>(nonce));
  return Folder() + name;
}

bool Lives(int32_t pid) {
  return kill(pid, 0) == 0 || errno != ESRCH;
}

// What processes left that ended without taking their leave.
void RemoveStale() {
  DIR* folder = opendir(Folder().c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    if (strncmp(entry->d_name, kPrefix, strlen(kPrefix)) != 0) continue;
    const int pid = atoi(entry->d_name + strlen(kPrefix));
    if (pid > 0 && !Lives(pid)) unlinkat(dirfd(folder), entry->d_name, 0);
  }
  closedir(folder);
}

SharedCounts* MapFile(int fd) {
  void* memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<SharedCounts*>(memory);
}

// Under the file's mutex.
bool MakeFile(File& file) {
  RemoveStale();
  if (getrandom(&file.nonce, sizeof(file.nonce), 0) != sizeof(file.nonce)) return false;
  const std::string path = PathOf(getpid(), file.nonce);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, kFileBytes) != 0) {
    Log(LogLevel::kError, "events for other processes: %s: %s", path.c_str(), strerror(errno));
    if (fd >= 0) close(fd);
    return false;
  }
  file.slots = MapFile(fd);
  close(fd);
  return file.slots != nullptr;
}

}  // namespace

void SharedCounts::Reach(uint64_t recording) {
  uint64_t before = reached.load();
  while (before < recording && !reached.compare_exchange_weak(before, recording)) {
  }
}

std::shared_ptr<SharedEvent> SharedEvent::Create() {
  File& file = OwnFile();
  std::lock_guard lock(file.mutex);
  if (file.slots == nullptr && !MakeFile(file)) return nullptr;
  if (file.free.empty() && file.next == kSlots) return nullptr;
  std::shared_ptr<SharedEvent> event(new SharedEvent);
  if (file.free.empty()) {
    event->slot_ = file.next++;
  } else {
    event->slot_ = file.free.back();
    file.free.pop_back();
  }
  event->pid_ = getpid();
  event->nonce_ = file.nonce;
  event->counts_ = file.slots + event->slot_;
  return event;
}

std::shared_ptr<SharedEvent> SharedEvent::Open(const CUipcEventHandle& handle) {
  HandleBytes bytes;
  memcpy(static_cast<void*>(&bytes), &handle, sizeof(bytes));
  if (bytes.magic != kMagic || bytes.slot >= kSlots || bytes.pid <= 0) return nullptr;
  const int fd = open(PathOf(bytes.pid, bytes.nonce).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return nullptr;
  struct stat status;
  const bool whole = fstat(fd, &status) == 0 && static_cast<size_t>(status.st_size) == kFileBytes;
  SharedCounts* slots = whole ? MapFile(fd) : nullptr;
  close(fd);
  if (slots == nullptr) return nullptr;
  std::shared_ptr<SharedEvent> event(new SharedEvent);
  event->slot_ = bytes.slot;
  event->pid_ = bytes.pid;
  event->nonce_ = bytes.nonce;
  event->opened_ = slots;
  event->counts_ = slots + bytes.slot;
  return event;
}

SharedEvent::~SharedEvent() {
  if (opened_ != nullptr) {
    munmap(opened_, kFileBytes);
    return;
  }
  File& file = OwnFile();
  std::lock_guard lock(file.mutex);
  file.free.push_back(slot_);
}

CUipcEventHandle SharedEvent::handle() const {
  HandleBytes bytes;
  bytes.nonce = nonce_;
  bytes.pid = pid_;
  bytes.slot = slot_;
  CUipcEventHandle handle{};
  memcpy(&handle, &bytes, sizeof(bytes));
  return handle;
}

void SharedEvent::Wait(uint64_t recording) const {
  for (int round = 0; !reached(recording); ++round) {
    if (round % 1000 == 999 && !Lives(pid_)) return;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace farcall::cpu_device
