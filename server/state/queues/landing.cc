// SPDX-License-Identifier: Apache-2.0
// Chunks from the client, from the lane to the copy that uses them.
#include "server/state/queues/landing.h"

#include <algorithm>
#include <cstdlib>

namespace farcall::server {

namespace {

constexpr size_t kSmallestInSlot = 32u << 10;
constexpr size_t kOverheadBytes = 256;  // of a chunk from the heap: a byte each must not cost more

}  // namespace

Landing::Landing(const DriverApi& api, size_t max_slots, size_t max_heap_bytes,
                 std::function<void()> landed, std::function<void(uint64_t)> used)
    : slots_(api, kMaxChunkBytes, max_slots, 8),
      max_heap_bytes_(max_heap_bytes),
      landed_(std::move(landed)),
      used_(std::move(used)) {}

Landing::~Landing() {
  for (auto& [transfer, chunks] : transfers_)
    for (auto& [offset, chunk] : chunks) Free(chunk);
}

std::span<std::byte> Landing::Destination(const ChunkHeader& header) {
  uint64_t end = header.offset + header.bytes;
  if (end < header.offset || header.bytes == 0 || header.bytes > kMaxChunkBytes) return {};
  std::unique_lock lock(mutex_);
  // A lane lost in mid-chunk brings the same chunk again: it lands where its first part did.
  if (auto transfer = transfers_.find(header.transfer); transfer != transfers_.end()) {
    auto again = transfer->second.find(header.offset);
    if (again != transfer->second.end() && !again->second.landed &&
        again->second.bytes.size() == header.bytes)
      return again->second.bytes;
  }
  Chunk chunk;
  // Small chunks and overflow come from the heap.
  if (header.bytes >= kSmallestInSlot) {
    while (!stopping_) {
      chunk.slot = slots_.Take(false);
      if (chunk.slot || in_flight_slots_ == 0) break;
      freed_.wait(lock);
    }
  }
  if (stopping_) return {};
  Chunks& chunks = transfers_[header.transfer];
  auto next = chunks.lower_bound(header.offset);
  bool overlaps = next != chunks.end() && next->first < end;
  if (next != chunks.begin()) {
    auto before = std::prev(next);
    overlaps = overlaps || before->first + before->second.bytes.size() > header.offset;
  }
  if (overlaps) {
    Free(chunk);
    return {};
  }
  std::byte* data = chunk.slot.data;
  if (data == nullptr) {
    size_t costs = header.bytes + kOverheadBytes;
    if (heap_bytes_ + costs > max_heap_bytes_) return {};
    data = static_cast<std::byte*>(std::malloc(header.bytes));
    if (data == nullptr) return {};
    heap_bytes_ += costs;
  }
  chunk.bytes = {data, header.bytes};
  chunks.emplace(header.offset, chunk);
  return chunk.bytes;
}

void Landing::Landed(const ChunkHeader& header) {
  {
    std::lock_guard lock(mutex_);
    auto transfer = transfers_.find(header.transfer);
    if (transfer != transfers_.end()) {
      auto chunk = transfer->second.find(header.offset);
      if (chunk != transfer->second.end()) chunk->second.landed = true;
    }
    ahead_.insert(header.seq);
    while (!ahead_.empty() && *ahead_.begin() <= prefix_ + 1) {
      prefix_ = std::max(prefix_, *ahead_.begin());
      ahead_.erase(ahead_.begin());
    }
  }
  landed_();
}

void Landing::Stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  freed_.notify_all();
}

Landing::Cover Landing::Check(uint64_t transfer, uint64_t offset, uint64_t bytes,
                              uint64_t chunks_sent) {
  if (bytes == 0 || offset + bytes < offset) return Cover::kViolation;
  std::lock_guard lock(mutex_);
  uint64_t at = offset;
  auto found = transfers_.find(transfer);
  if (found != transfers_.end()) {
    auto chunk = found->second.upper_bound(at);
    if (chunk != found->second.begin()) --chunk;
    for (; chunk != found->second.end() && chunk->first <= at; ++chunk) {
      if (!chunk->second.landed) break;
      at = std::max(at, chunk->first + chunk->second.bytes.size());
      if (at >= offset + bytes) return Cover::kWhole;
    }
  }
  return prefix_ >= chunks_sent ? Cover::kViolation : Cover::kAwaited;
}

template <typename Visit>
void Landing::ForRange(uint64_t transfer, uint64_t offset, uint64_t bytes, Visit visit) {
  auto found = transfers_.find(transfer);
  if (found == transfers_.end()) return;
  Chunks& chunks = found->second;
  auto chunk = chunks.upper_bound(offset);
  if (chunk != chunks.begin()) --chunk;
  while (chunk != chunks.end() && chunk->first < offset + bytes) {
    uint64_t begin = std::max(offset, chunk->first);
    uint64_t end = std::min(offset + bytes, chunk->first + chunk->second.bytes.size());
    bool erase = begin < end && visit(chunk->first, chunk->second, begin, end);
    chunk = erase ? chunks.erase(chunk) : std::next(chunk);
  }
  if (chunks.empty()) transfers_.erase(found);
}

bool Landing::Claim(uint64_t transfer, uint64_t offset, uint64_t bytes, bool in_flight,
                    std::vector<Piece>* pieces) {
  std::lock_guard lock(mutex_);
  bool twice = false;
  ForRange(transfer, offset, bytes, [&](uint64_t, Chunk& chunk, uint64_t begin, uint64_t end) {
    twice = twice || end - begin > chunk.bytes.size() - chunk.claimed_bytes;
    return false;
  });
  if (twice) return false;
  ForRange(transfer, offset, bytes,
           [&](uint64_t start, Chunk& chunk, uint64_t begin, uint64_t end) {
             chunk.claimed_bytes += end - begin;
             pieces->push_back({begin - offset, chunk.bytes.subspan(begin - start, end - begin)});
             if (in_flight && !chunk.in_flight && chunk.slot) {
               chunk.in_flight = true;
               ++in_flight_slots_;
             }
             return false;
           });
  return true;
}

void Landing::Release(uint64_t transfer, uint64_t offset, uint64_t bytes) {
  uint64_t report = 0;
  {
    std::lock_guard lock(mutex_);
    ForRange(transfer, offset, bytes, [&](uint64_t, Chunk& chunk, uint64_t begin, uint64_t end) {
      chunk.released_bytes += end - begin;
      used_bytes_ += end - begin;
      if (chunk.released_bytes < chunk.bytes.size()) return false;
      Free(chunk);
      return true;
    });
    if (used_bytes_ - reported_bytes_ >= kUsedStepBytes) report = reported_bytes_ = used_bytes_;
  }
  if (report != 0) used_(report);
}

void Landing::Free(Chunk& chunk) {
  if (chunk.slot) {
    slots_.Put(chunk.slot);
    if (chunk.in_flight) --in_flight_slots_;
    freed_.notify_all();
  } else if (!chunk.bytes.empty()) {
    std::free(chunk.bytes.data());
    heap_bytes_ -= chunk.bytes.size() + kOverheadBytes;
  }
  chunk.slot = {};
  chunk.bytes = {};
}

}  // namespace farcall::server
