// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace farcall {
namespace {

constexpr int kFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE, newer than some headers
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Status Failed(const char* doing) {
  return {Code::kUnavailable, std::string("shared memory: ") + doing + ": " + strerror(errno)};
}

Result<int> MakeFile(size_t ring_bytes) {
  const int fd = memfd_create("farcall-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failed("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(kRingOffset + ring_bytes)) != 0) {
    const Status failed = Failed("ftruncate");
    close(fd);
    return failed;
  }
  return fd;
}

Status Seal(int fd, bool is_own) {
  const int seals = kSizeSeals | F_SEAL_SEAL;
  if (is_own && fcntl(fd, F_ADD_SEALS, seals | kFutureWrite) == 0) return {};
  return fcntl(fd, F_ADD_SEALS, seals) == 0 ? Status() : Failed("F_ADD_SEALS");
}

// Bytes of the ring in a file that cannot change its size.
Result<size_t> CheckFile(int fd) {
  struct stat status {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals || fstat(fd, &status) != 0)
    return Status(Code::kMalformed, "shared memory: the server's ring is no sealed memory");
  const auto bytes = static_cast<uint64_t>(status.st_size);
  const uint64_t ring_bytes = bytes - kRingOffset;
  if (bytes < kRingOffset + kMinRingBytes || bytes > kRingOffset + kMaxRingBytes ||
      (ring_bytes & (ring_bytes - 1)) != 0) {
    return Status(Code::kMalformed,
                  "shared memory: a ring of " + std::to_string(bytes) + " bytes is none of ours");
  }
  return static_cast<size_t>(ring_bytes);
}

}  // namespace

RingMapping::~RingMapping() {
  if (words_ != nullptr) munmap(words_, kRingOffset + ring_bytes_);
}

Result<RingMapping> RingMapping::Map(int fd, size_t ring_bytes, bool writable) {
  const size_t bytes = kRingOffset + ring_bytes;
  void* memory =
      mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Failed("mmap");
  RingMapping mapping;
  mapping.words_ = static_cast<RingWords*>(memory);
  mapping.ring_bytes_ = ring_bytes;
  if (madvise(memory, bytes, MADV_DONTFORK) != 0) return Failed("MADV_DONTFORK");
  return mapping;
}

Result<OfferedRings> MakeRings(size_t ring_bytes) {
  OfferedRings made;
  const auto make = [&](int* file, RingMapping* mapping, bool is_own) -> Status {
    Result<int> fd = MakeFile(ring_bytes);
    FARCALL_TRY(fd.status());
    *file = *fd;
    Result<RingMapping> mapped = RingMapping::Map(*fd, ring_bytes, is_own);
    FARCALL_TRY(mapped.status());
    *mapping = std::move(*mapped);
    return Seal(*fd, is_own);
  };
  Status status = make(&made.descriptors[0], &made.rings.peer, false);
  if (status.ok()) status = make(&made.descriptors[1], &made.rings.own, true);
  if (!status.ok()) {
    for (int fd : made.descriptors)
      if (fd >= 0) close(fd);
    return status;
  }
  made.rings.own.words()->magic = kRingMagic;
  made.rings.own.words()->version = kRingVersion;
  return made;
}

Result<Rings> MapRings(const std::array<int, 2>& descriptors) {
  Rings rings;
  for (size_t i = 0; i < descriptors.size(); ++i) {
    Result<size_t> ring_bytes = CheckFile(descriptors[i]);
    FARCALL_TRY(ring_bytes.status());
    const bool is_own = i == 0;
    Result<RingMapping> mapped = RingMapping::Map(descriptors[i], *ring_bytes, is_own);
    FARCALL_TRY(mapped.status());
    (is_own ? rings.own : rings.peer) = std::move(*mapped);
  }
  const RingWords& theirs = *rings.peer.words();
  if (theirs.magic != kRingMagic || theirs.version != kRingVersion) {
    return Status(Code::kMalformed, "shared memory: the server's rings are of another version (" +
                                        std::to_string(theirs.version) + ", right is " +
                                        std::to_string(kRingVersion) + ")");
  }
  return rings;
}

}  // namespace farcall
