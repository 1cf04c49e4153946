// SPDX-License-Identifier: Apache-2.0
// Device memory of another process: a piece of the file its arena shares (Arena::Share), mapped
// here.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/memory/arena.h"
#include "cpu-device/driver/memory/ranges.h"

namespace farcall::cpu_device {

// Where a piece of shared memory is. Crosses processes inside CUipcMemHandle and
// CUmemPoolPtrExportData: whoever reads one checks it.
struct SharedPiece {
  uint64_t magic = 0;
  uint64_t inode = 0;  // of the file: tells it from one that took its descriptor's number
  uint64_t offset = 0, bytes = 0;
  int32_t pid = 0;
  int32_t descriptor = 0;
  int32_t device = 0;

  bool operator==(const SharedPiece&) const = default;
};
static_assert(sizeof(SharedPiece) <= sizeof(CUipcMemHandle));

class OpenedMemory {
 public:
  OpenedMemory(const OpenedMemory&) = delete;
  ~OpenedMemory();
  // Maps what `piece` says of the file that `descriptor` is; nullptr: it cannot be.
  static std::shared_ptr<OpenedMemory> Map(const SharedPiece& piece, int descriptor);

  const SharedPiece& piece() const { return piece_; }
  uint64_t address() const { return mapping_ + piece_.offset % kSharedPage; }
  unsigned opens = 1;

 private:
  OpenedMemory(const SharedPiece& piece, uint64_t mapping, uint64_t room)
      : piece_(piece), mapping_(mapping), room_(room) {}
  const SharedPiece piece_;
  // Whole pages of the arena: what lies in its window is the fastest to reach for kernels.
  const uint64_t mapping_, room_;
};

// Shares the device memory in `range` and says where it is.
//   Errors  OPERATING_SYSTEM (no memory file)
CUresult ShareRange(const Range& range, SharedPiece* piece);
// The same for a range that is shared already.
CUresult DescribeShared(const Range& range, SharedPiece* piece);
// The descriptor of the file in the process that `piece` names, to be closed; -1: it is not there.
int OpenFile(const SharedPiece& piece);
// True if `descriptor` is the file that holds `piece`.
bool IsFileOf(int descriptor, const SharedPiece& piece);

}  // namespace farcall::cpu_device
