// SPDX-License-Identifier: Apache-2.0
// Chunks of which a part came back, made smaller by that part: the driver gives no part of a chunk
// back, so what lies in the rest moves to new ones, at the addresses it had.
#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "server/device/current_context.h"
#include "server/memory/address_map.h"
#include "server/memory/device_memory.h"
#include "server/memory/host_slabs.h"

namespace farcall::server {

namespace {

// For a device that others fill meanwhile, though the ledger has the room.
constexpr int kTries = 50;
constexpr std::chrono::milliseconds kBetween(20);

}  // namespace

bool DeviceMemory::MaySplit(const Chunk& chunk, int device) {
  return chunk.device == device && chunk.returned_bytes != 0 && !chunk.shared &&
         !chunk.being_shared && chunk.out == nullptr;
}

// What is free is a question to the supervisor, which each refusal near the quota would ask.
bool DeviceMemory::SplitsFor(int device, uint64_t bytes) {
  uint64_t came_back = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [base, chunk] : chunks_) {
      if (!MaySplit(chunk, device)) continue;
      came_back += chunk.bytes;
      for (const auto& [at, kept] : KeptPieces(base, chunk)) came_back -= kept;
    }
  }
  return came_back != 0 && bytes <= broker_.Query(device).free_bytes() + came_back;
}

// What is credit of it, spent or not, in whole granules.
std::vector<DeviceMemory::Piece> DeviceMemory::KeptPieces(uint64_t base, const Chunk& chunk) const {
  std::vector<Piece> pieces;
  uint64_t end = base + chunk.bytes;
  for (auto span = EndingBehind(credit_, base); span != credit_.end() && span->first < end;
       ++span) {
    uint64_t from = std::max(base, span->first), to = std::min(end, span->second.end);
    from = base + (from - base) / kChunkGranularityBytes * kChunkGranularityBytes;
    to = base +
         (to - base + kChunkGranularityBytes - 1) / kChunkGranularityBytes * kChunkGranularityBytes;
    if (!pieces.empty() && pieces.back().first + pieces.back().second >= from)
      pieces.back().second = to - pieces.back().first;
    else
      pieces.emplace_back(from, to - from);
  }
  return pieces;
}

uint64_t DeviceMemory::SplitChunk(uint64_t base, CUcontext context, CUstream stream,
                                  HostSlabs& slabs, CUresult* result) {
  std::unique_lock lock(mutex_);
  const Chunk chunk = chunks_.at(base);
  const std::vector<Piece> pieces = KeptPieces(base, chunk);
  lock.unlock();
  uint64_t kept = 0;
  for (const auto& [at, bytes] : pieces) kept += bytes;
  // Of few sizes, so that the next chunk's is there already: pages are the larger part of a split.
  std::byte* slab =
      kept == 0 || kept == chunk.bytes ? nullptr : slabs.Take(std::bit_ceil(kept), context);
  if (slab == nullptr) return 0;
  CUresult copied = CUDA_SUCCESS;
  uint64_t offset = 0;
  for (const auto& [at, bytes] : pieces) {
    CUresult copy = api_.cuMemcpyDtoHAsync_v2(slab + offset, at, bytes, stream);
    copied = copied == CUDA_SUCCESS ? copy : copied;
    offset += bytes;
  }
  CUresult waited = api_.cuStreamSynchronize(stream);
  if (copied != CUDA_SUCCESS || waited != CUDA_SUCCESS) {  // it stays as it is
    slabs.Put(slab);
    return 0;
  }
  DropChunk(base, chunk);
  std::map<uint64_t, Chunk> made;
  offset = 0;
  for (const auto& [at, bytes] : pieces) {
    Chunk& piece = made[at];
    CUresult mapped = MapAgain(chunk.device, at, bytes, &piece);
    for (int i = 1; i < kTries && mapped == CUDA_ERROR_OUT_OF_MEMORY; ++i) {
      std::this_thread::sleep_for(kBetween);
      mapped = MapAgain(chunk.device, at, bytes, &piece);
    }
    if (mapped == CUDA_SUCCESS)
      mapped = api_.cuMemcpyHtoDAsync_v2(at, slab + offset, bytes, stream);
    else
      made.erase(at);
    *result = *result == CUDA_SUCCESS ? mapped : *result;
    offset += bytes;
  }
  waited = api_.cuStreamSynchronize(stream);
  *result = *result == CUDA_SUCCESS ? waited : *result;
  slabs.Put(slab);
  lock.lock();
  uint64_t gap = base, came_back = 0;
  auto give_back = [&](uint64_t to) {
    if (gap < to) {
      PutRange(gap, to - gap);
      came_back += to - gap;
    }
  };
  for (const auto& [at, bytes] : pieces) {
    give_back(at);
    gap = at + bytes;
  }
  give_back(base + chunk.bytes);
  for (auto& [at, piece] : made) {  // what came back in less than a granule stays to come back
    uint64_t credit = 0;
    for (const auto& [from, span] : credit_) {
      uint64_t begin = std::max(at, from), end = std::min(at + piece.bytes, span.end);
      credit += begin < end ? end - begin : 0;
    }
    piece.returned_bytes = piece.bytes - credit;
  }
  chunks_.erase(base);
  chunks_.merge(made);
  broker_.use().Returning(chunk.device, came_back);
  broker_.Refund(chunk.device, came_back);
  broker_.use().Unspent(chunk.device, -static_cast<int64_t>(came_back));
  return came_back;
}

DeviceMemory::Moved DeviceMemory::SplitChunks(int device, CUcontext context, HostSlabs& slabs) {
  std::vector<uint64_t> bases;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [base, chunk] : chunks_)
      if (MaySplit(chunk, device)) bases.push_back(base);
  }
  Moved moved;
  CUstream stream = nullptr;
  CurrentContext::Set(api_, context);
  if (api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    return moved;  // everything stays as it is
  for (uint64_t base : bases)
    moved.bytes += SplitChunk(base, context, stream, slabs, &moved.result);
  api_.cuStreamDestroy_v2(stream);
  return moved;
}

}  // namespace farcall::server
