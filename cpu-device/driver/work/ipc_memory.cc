// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/work/ipc_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kMagic = 0x4D454D4350494346;

void* At(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

CUresult ShareRange(const Range& range, SharedPiece* piece) {
  Driver& driver = TheDriver();
  {
    // Work that is under way ends first, what is launched meanwhile waits.
    std::unique_lock alone(driver.memory_in_use);
    if (!driver.arena->Share(range.start, range.bytes)) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return DescribeShared(range, piece);
}

CUresult DescribeShared(const Range& range, SharedPiece* piece) {
  const Driver& driver = TheDriver();
  struct stat status;
  if (fstat(driver.arena->file(), &status) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *piece = {kMagic,      status.st_ino, range.start - driver.arena->begin(),
            range.bytes, getpid(),      driver.arena->file(),
            range.device};
  return CUDA_SUCCESS;
}

bool IsFileOf(int descriptor, const SharedPiece& piece) {
  struct stat status;
  if (piece.magic != kMagic || !Arena::IsFile(descriptor) || fstat(descriptor, &status) != 0 ||
      status.st_ino != piece.inode)
    return false;
  const auto size = static_cast<uint64_t>(status.st_size);
  return piece.bytes != 0 && piece.offset <= size && piece.bytes <= size - piece.offset;
}

int OpenFile(const SharedPiece& piece) {
  if (piece.magic != kMagic || piece.pid <= 0 || piece.descriptor < 0) return -1;
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", piece.pid, piece.descriptor);
  const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && IsFileOf(fd, piece)) return fd;
  Log(LogLevel::kError, "memory of process %d: %s: %s", piece.pid, path,
      fd < 0 ? strerror(errno) : "not the file that the handle names");
  if (fd >= 0) close(fd);
  return -1;
}

std::shared_ptr<OpenedMemory> OpenedMemory::Map(const SharedPiece& piece, int descriptor) {
  if (!IsFileOf(descriptor, piece)) return nullptr;
  const uint64_t first = piece.offset & ~(kSharedPage - 1);
  const uint64_t bytes =
      (piece.offset + piece.bytes - first + kSharedPage - 1) & ~(kSharedPage - 1);
  const uint64_t room = (bytes + Arena::kPage - 1) & ~(Arena::kPage - 1);
  const uint64_t mapping = TheDriver().arena->Allocate(room);
  if (mapping == 0) return nullptr;
  std::shared_ptr<OpenedMemory> memory(new OpenedMemory(piece, mapping, room));
  const void* mapped = mmap(At(mapping), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            descriptor, static_cast<off_t>(first));
  return mapped == MAP_FAILED ? nullptr : memory;
}

OpenedMemory::~OpenedMemory() {
  TheDriver().arena->Free(mapping_, room_);
}

}  // namespace farcall::cpu_device
