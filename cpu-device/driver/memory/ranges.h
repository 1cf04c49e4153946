// SPDX-License-Identifier: Apache-2.0
// Every address range the device knows: what it is, whose it is, and what may be done with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/exec/known_range.h"

namespace farcall::cpu_device {

class Context;
class MemPool;
class OpenedMemory;
struct PhysicalMemory;

enum class RangeKind {
  kDevice,
  kManaged,
  kPool,
  kGlobal,
  kHost,
  kHostRegistered,
  kReservation,
  kOpened,  // another process's
};

// A piece of physical memory mapped into a reservation.
struct Mapping {
  uint64_t start = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // into the physical memory
  std::shared_ptr<PhysicalMemory> memory;
  std::vector<CUmemAccess_flags> access;  // by device ordinal
  uint64_t id = 0;
  bool multicast = false;  // nothing reads or writes it but multimem instructions
};

struct Range {
  uint64_t start = 0;
  uint64_t bytes = 0;
  RangeKind kind = RangeKind::kDevice;
  int device = 0;
  Context* context =
      nullptr;         // for comparison and as the handle given out; may have been destroyed
  unsigned flags = 0;  // of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged
  uint64_t id = 0;     // CU_POINTER_ATTRIBUTE_BUFFER_ID
  std::shared_ptr<MemPool> pool;
  std::shared_ptr<OpenedMemory> opened;  // unmapped with its last range
  std::map<uint64_t, Mapping> mappings;  // of a reservation, by start
  bool is_managed_variable = false;      // of a global

  bool managed() const { return kind == RangeKind::kManaged || is_managed_variable; }
  uint64_t end() const { return start + bytes; }
  bool on_host() const { return kind == RangeKind::kHost || kind == RangeKind::kHostRegistered; }
};

// Thread  all methods from any thread
class RangeMap {
 public:
  // false: it overlaps a known range.
  bool Add(Range range);
  // A copy of the range that holds `address`.
  bool Find(uint64_t address, Range* range) const;
  // What [address, address + bytes) is; false if it is not inside one range.
  bool KindOf(uint64_t address, uint64_t bytes, RangeKind* kind) const;
  // Takes out the range that starts at `address` and for which `accept` is true; false if there is
  // none.
  template <typename Predicate>
  bool Take(uint64_t address, Range* range, Predicate accept) {
    std::unique_lock lock(mutex_);
    const auto found = ranges_.find(address);
    if (found == ranges_.end() || !accept(found->second)) return false;
    NoteChange();
    *range = std::move(found->second);
    ranges_.erase(found);
    return true;
  }
  std::vector<Range> TakeContext(const Context* context);
  // Runs `change(Range&)` on the range that holds `address`, under the lock; false if there is
  // none.
  template <typename Change>
  bool Update(uint64_t address, Change change) {
    std::unique_lock lock(mutex_);
    Range* range = At(address);
    if (range == nullptr) return false;
    NoteChange();
    change(*range);
    return true;
  }

  // True if [address, address + bytes) lies in one known range and, for a reservation, is mapped
  // with access for `device`.
  bool Accessible(uint64_t address, uint64_t bytes, int device, bool write) const;
  // Copy of the largest address reservation; empty if there is none.
  Range LargestReservation() const;
  // True if the address lies in a range that may be touched. Takes no lock it would wait for, and
  // none where the thread asks for the same range again: kernels ask at every access to host
  // memory.
  bool MaybeMapped(uint64_t address) const;
  // True if [address, address + bytes) lies in one range that may be touched, all of which `*found`
  // then is; false too where a lock would have to be waited for.
  bool Mapped(uint64_t address, uint64_t bytes, KnownRange* found) const;
  // Another number after every change.
  const std::atomic<uint64_t>& version() const { return version_; }

 private:
  Range* At(uint64_t address);
  const Range* At(uint64_t address) const { return const_cast<RangeMap*>(this)->At(address); }

  void NoteChange();

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Range> ranges_;
  std::atomic<uint64_t> version_{0};  // no two states of any map have the same, but the empty ones
  uint64_t next_id_ = 1;
};

}  // namespace farcall::cpu_device
