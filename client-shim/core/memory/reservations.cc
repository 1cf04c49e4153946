// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/reservations.h"

#include <algorithm>
#include <iterator>

#include "proto/codec.h"

namespace farcall::client {

Reservations& UserRanges() {
  static Reservations* ranges = new Reservations;
  return *ranges;
}

void Reservations::SetWindow(const Window& window, uint8_t server) {
  std::lock_guard lock(mutex_);
  if (windows_.size() <= server) windows_.resize(server + 1u);
  windows_[server] = window;
  if (server != 0) return;
  reserved_.clear();
  pieces_.clear();
}

bool Reservations::Contains(uint64_t address) const {
  return std::any_of(windows_.begin(), windows_.end(),
                     [&](const Window& window) { return window.Contains(address, 1); });
}

uint64_t Reservations::Reserve(uint64_t bytes, uint64_t align, uint64_t hint, bool lent,
                               uint8_t server) {
  if (!has_window(server)) return 0;
  const Window& mine = windows_[server];
  auto free_at = [&](uint64_t base) {
    if (!mine.Contains(base, bytes)) return false;
    auto next = reserved_.lower_bound(base);
    if (next != reserved_.end() && next->first - base < bytes) return false;
    if (next == reserved_.begin()) return true;
    const Window& before = std::prev(next)->second.window;
    return base - before.base >= before.bytes;
  };
  uint64_t base = 0;
  if (hint != 0 && hint % align == 0 && free_at(hint)) {
    base = hint;
  } else {
    uint64_t at = AlignUp(mine.base, align);
    for (const auto& [start, taken] : reserved_) {
      if (!mine.Contains(start, 1)) continue;
      if (start >= at && start - at >= bytes) break;
      uint64_t end = start + taken.window.bytes;
      if (end > at) at = AlignUp(end, align);
    }
    if (!free_at(at)) return 0;
    base = at;
  }
  reserved_[base] = {{base, bytes}, lent};
  return base;
}

bool Reservations::Free(uint64_t address, uint64_t bytes, bool lent) {
  auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second.window.bytes != bytes || found->second.lent != lent)
    return false;
  auto piece = pieces_.lower_bound(address);
  if (piece != pieces_.end() && piece->first - address < bytes) return false;
  reserved_.erase(found);
  return true;
}

bool Reservations::Reserved(uint64_t address, uint64_t bytes) const {
  auto after = reserved_.upper_bound(address);
  if (after == reserved_.begin()) return false;
  const Range& range = std::prev(after)->second;
  return !range.lent && range.window.Contains(address, bytes);
}

bool Reservations::MayMap(uint64_t address, uint64_t bytes) const {
  if (!Reserved(address, bytes)) return false;
  auto next = pieces_.lower_bound(address);
  if (next != pieces_.end() && next->first - address < bytes) return false;
  return next == pieces_.begin() ||
         address - std::prev(next)->first >= std::prev(next)->second.bytes;
}

void Reservations::Map(const MappedPiece& piece) {
  pieces_[piece.address] = piece;
  ++piece.memory->mappings;
}

std::vector<MappedPiece*> Reservations::Whole(uint64_t address, uint64_t bytes) {
  std::vector<MappedPiece*> whole;
  uint64_t next = address;
  for (auto at = pieces_.find(address); next - address < bytes; ++at) {
    if (at == pieces_.end() || at->first != next || at->second.bytes > bytes - (next - address))
      return {};
    whole.push_back(&at->second);
    next += at->second.bytes;
  }
  return whole;
}

std::vector<MappedPiece*> Reservations::Covering(uint64_t address, uint64_t bytes) {
  std::vector<MappedPiece*> covering;
  auto at = pieces_.upper_bound(address);
  if (at == pieces_.begin() || !Reserved(address, bytes)) return {};
  --at;
  for (uint64_t next = address; next - address < bytes; ++at) {
    if (at == pieces_.end() || at->first > next || next - at->first >= at->second.bytes) return {};
    covering.push_back(&at->second);
    next = at->first + at->second.bytes;
  }
  return covering;
}

void Reservations::Unmap(uint64_t address, uint64_t bytes) {
  for (auto at = pieces_.find(address); at != pieces_.end() && at->first - address < bytes;) {
    --at->second.memory->mappings;
    at = pieces_.erase(at);
  }
}

}  // namespace farcall::client
