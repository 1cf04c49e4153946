// SPDX-License-Identifier: Apache-2.0
#include "server/control/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace farcall::server {

namespace {

// What a memory file stays as: nobody who holds it can change it, nor allow that again.
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

}  // namespace

int MakeMemoryFile(const char* name, std::span<const std::byte> bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  size_t at = 0;
  while (at < bytes.size()) {
    ssize_t wrote = write(fd, bytes.data() + at, bytes.size() - at);
    if (wrote <= 0) {
      close(fd);
      return -1;
    }
    at += static_cast<size_t>(wrote);
  }
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

Result<std::vector<std::byte>> ReadMemoryFile(int fd, size_t limit) {
  // A file of another kind could keep its reader waiting, or change under it.
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return Status(Code::kMalformed, "memory file: it is not sealed");
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) > limit) {
    return Status(Code::kMalformed, "memory file: " + std::to_string(status.st_size) +
                                        " bytes, at most " + std::to_string(limit));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
  size_t at = 0;
  while (at < bytes.size()) {
    ssize_t got = pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got <= 0) return Status(Code::kMalformed, "memory file: it ends early");
    at += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace farcall::server
