// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/memory/ranges.h"

#include <iterator>
#include <utility>

namespace farcall::cpu_device {
namespace {

bool MappedThrough(const Range& range, uint64_t address, uint64_t bytes, int device, bool write) {
  const uint64_t end = address + bytes;
  auto it = range.mappings.upper_bound(address);
  if (it == range.mappings.begin()) return false;
  for (--it; address < end; ++it) {
    if (it == range.mappings.end()) return false;
    const Mapping& mapping = it->second;
    if (address < mapping.start || address >= mapping.start + mapping.bytes) return false;
    const size_t index = static_cast<size_t>(device);
    const auto access =
        index < mapping.access.size() ? mapping.access[index] : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (mapping.multicast || access == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
        (write && access == CU_MEM_ACCESS_FLAGS_PROT_READ))
      return false;
    address = mapping.start + mapping.bytes;
  }
  return true;
}

// What a thread found last, and when: a kernel goes from one of its few arrays to the other.
struct LastFound {
  KnownRange pieces[4];
  uint32_t next = 0;
};

}  // namespace

Range* RangeMap::At(uint64_t address) {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return nullptr;
  --it;
  return address < it->second.end() ? &it->second : nullptr;
}

bool RangeMap::Add(Range range) {
  std::unique_lock lock(mutex_);
  const auto next = ranges_.lower_bound(range.start);
  if (next != ranges_.end() && next->first < range.end()) return false;
  if (next != ranges_.begin() && std::prev(next)->second.end() > range.start) return false;
  NoteChange();
  range.id = next_id_++;
  ranges_.emplace(range.start, std::move(range));
  return true;
}

bool RangeMap::Find(uint64_t address, Range* range) const {
  std::shared_lock lock(mutex_);
  const Range* found = At(address);
  if (found == nullptr) return false;
  *range = *found;
  return true;
}

bool RangeMap::KindOf(uint64_t address, uint64_t bytes, RangeKind* kind) const {
  std::shared_lock lock(mutex_);
  const Range* found = At(address);
  if (found == nullptr || bytes > found->end() - address) return false;
  *kind = found->kind;
  return true;
}

std::vector<Range> RangeMap::TakeContext(const Context* context) {
  std::vector<Range> taken;
  std::unique_lock lock(mutex_);
  NoteChange();
  for (auto it = ranges_.begin(); it != ranges_.end();) {
    if (it->second.context == context && it->second.kind != RangeKind::kReservation) {
      taken.push_back(std::move(it->second));
      it = ranges_.erase(it);
    } else {
      ++it;
    }
  }
  return taken;
}

Range RangeMap::LargestReservation() const {
  std::shared_lock lock(mutex_);
  const Range* largest = nullptr;
  for (const auto& [start, range] : ranges_)
    if (range.kind == RangeKind::kReservation &&
        (largest == nullptr || range.bytes > largest->bytes))
      largest = &range;
  return largest == nullptr ? Range{} : *largest;
}

bool RangeMap::Accessible(uint64_t address, uint64_t bytes, int device, bool write) const {
  std::shared_lock lock(mutex_);
  const Range* range = At(address);
  if (range == nullptr || bytes > range->end() - address) return false;
  return range->kind != RangeKind::kReservation ||
         MappedThrough(*range, address, bytes, device, write);
}

bool RangeMap::MaybeMapped(uint64_t address) const {
  static thread_local LastFound last;
  const uint64_t version = version_.load(std::memory_order_acquire);
  for (const KnownRange& piece : last.pieces)
    if (address - piece.begin < piece.bytes && piece.version == version) return true;
  std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  const Range* range = At(address);
  if (range == nullptr) return false;
  if (range->kind == RangeKind::kReservation) return MappedThrough(*range, address, 1, 0, false);
  last.pieces[last.next++ % std::size(last.pieces)] = {range->start, range->bytes,
                                                       version_.load(std::memory_order_relaxed)};
  return true;
}

bool RangeMap::Mapped(uint64_t address, uint64_t bytes, KnownRange* found) const {
  std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const Range* range = At(address);
  if (range == nullptr || bytes > range->end() - address) return false;
  if (range->kind == RangeKind::kReservation && !MappedThrough(*range, address, bytes, 0, false))
    return false;
  *found = {range->start, range->bytes, version_.load(std::memory_order_relaxed)};
  // Of a reservation not more is known than was looked at.
  if (range->kind == RangeKind::kReservation) found->begin = address, found->bytes = bytes;
  return true;
}

void RangeMap::NoteChange() {
  static std::atomic<uint64_t> changes{0};
  version_.store(changes.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace farcall::cpu_device
