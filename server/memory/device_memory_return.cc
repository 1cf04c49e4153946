// SPDX-License-Identifier: Apache-2.0
// Credit that comes back: a chunk goes when all of it has. Until then, for the driver gives no part
// of a chunk back, it stays charged and mapped, and is granted once more when nothing else is left.
#include <algorithm>

#include "server/memory/address_map.h"
#include "server/memory/device_memory.h"

namespace farcall::server {

std::map<uint64_t, DeviceMemory::Chunk>::iterator DeviceMemory::RetireChunk(
    std::map<uint64_t, Chunk>::iterator at) {
  const auto& [base, chunk] = *at;
  DropChunk(base, chunk);
  PutRange(base, chunk.bytes);
  broker_.use().Returning(chunk.device, chunk.bytes);
  if (chunk.shared) {
    broker_.DropShared(chunk.token);
    broker_.use().Charged(chunk.device, -static_cast<int64_t>(chunk.bytes));
  } else {
    broker_.Refund(chunk.device, chunk.bytes);
  }
  broker_.use().Unspent(chunk.device, -static_cast<int64_t>(chunk.bytes));
  return chunks_.erase(at);
}

bool DeviceMemory::ReturnCredit(int device, uint64_t base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes == 0 || !InCredit(base, bytes, device) || MeetsAllocation(base, bytes)) return false;
  RemoveCredit(base, bytes);
  uint64_t end = base + bytes;
  for (auto chunk = AtOrBefore(chunks_, base); chunk != chunks_.end() && chunk->first < end;) {
    uint64_t chunk_end = chunk->first + chunk->second.bytes;
    uint64_t from = std::max(base, chunk->first), to = std::min(end, chunk_end);
    if (from < to) chunk->second.returned_bytes += to - from;
    bool whole = chunk->second.returned_bytes == chunk->second.bytes;
    chunk = whole && !chunk->second.being_shared ? RetireChunk(chunk) : std::next(chunk);
  }
  return true;
}

bool DeviceMemory::Regrant(int device, uint64_t bytes, Window* range) {
  std::lock_guard lock(mutex_);
  uint64_t base = 0, end = 0;  // the gap between spans of credit that is looked at
  for (auto chunk = chunks_.begin(); chunk != chunks_.end() && end - base < bytes; ++chunk) {
    const Chunk& it = chunk->second;
    if (it.device != device || it.returned_bytes == 0 || it.being_shared) continue;
    uint64_t chunk_end = chunk->first + it.bytes;
    uint64_t at = end == chunk->first ? end : (base = end = chunk->first);
    auto span = EndingBehind(credit_, at);
    while (at < chunk_end && end - base < bytes) {
      bool is_credit = span != credit_.end() && span->first <= at;
      if (is_credit) {
        at = base = end = std::min(span->second.end, chunk_end);
        ++span;
      } else {
        at = end = span == credit_.end() ? chunk_end : std::min(span->first, chunk_end);
      }
    }
  }
  if (end - base < bytes) return false;
  *range = {base, bytes};
  auto chunk = std::prev(chunks_.upper_bound(base));
  for (uint64_t left = bytes; left != 0; ++chunk) {
    uint64_t from = std::max(base, chunk->first);
    uint64_t part = std::min(left, chunk->first + chunk->second.bytes - from);
    chunk->second.returned_bytes -= part;
    left -= part;
  }
  AddCredit(base, bytes, device);
  return true;
}

uint64_t DeviceMemory::AvailableBytes(int device, const quota::Usage& usage) const {
  std::lock_guard lock(mutex_);
  uint64_t total = usage.available_bytes();
  for (const auto& [base, chunk] : chunks_)
    total += chunk.device == device ? chunk.returned_bytes : 0;
  return std::min(total, usage.quota_bytes);
}

}  // namespace farcall::server
