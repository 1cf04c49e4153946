// SPDX-License-Identifier: Apache-2.0
// Chunks that leave the device and come back to the same addresses. Pointers to them, also those in
// memory and in graphs, stay good.
#include <utility>
#include <vector>

#include "server/device/current_context.h"
#include "server/memory/device_memory.h"
#include "server/memory/host_slabs.h"

namespace farcall::server {

namespace {

// Runs `move` with a stream of each device's context.
template <typename Move>
DeviceMemory::Moved OnEach(const DriverApi& api, const std::map<int, CUcontext>& contexts,
                           const Move& move) {
  DeviceMemory::Moved all;
  for (const auto& [device, context] : contexts) {
    CurrentContext::Set(api, context);
    CUstream stream = nullptr;
    DeviceMemory::Moved moved;
    moved.result = api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (moved.result == CUDA_SUCCESS) {
      moved = move(device, stream);
      api.cuStreamDestroy_v2(stream);
    }
    all.bytes += moved.bytes;
    all.result = all.result == CUDA_SUCCESS ? moved.result : all.result;
  }
  return all;
}

}  // namespace

DeviceMemory::Moved DeviceMemory::MoveOut(const std::map<int, CUcontext>& contexts,
                                          HostSlabs& slabs) {
  return OnEach(api_, contexts,
                [&](int device, CUstream stream) { return MoveDeviceOut(device, stream, slabs); });
}

DeviceMemory::Moved DeviceMemory::MoveIn(const std::map<int, CUcontext>& contexts,
                                         HostSlabs& slabs) {
  return OnEach(api_, contexts,
                [&](int device, CUstream stream) { return MoveDeviceIn(device, stream, slabs); });
}

// A chunk's address is in the map for as long as it is here: whoever could take it out waits for
// the session to have its memory again.
DeviceMemory::Moved DeviceMemory::MoveDeviceOut(int device, CUstream stream, HostSlabs& slabs) {
  std::vector<std::pair<uint64_t, uint64_t>> chunks;  // base, bytes
  {
    std::lock_guard lock(mutex_);
    for (const auto& [base, chunk] : chunks_)
      if (chunk.device == device && chunk.out == nullptr && !chunk.shared && !chunk.being_shared)
        chunks.emplace_back(base, chunk.bytes);
  }
  Moved moved;
  std::vector<std::byte*> copies;
  CUcontext context = nullptr;
  api_.cuCtxGetCurrent(&context);
  for (const auto& [base, bytes] : chunks) {
    std::byte* slab = slabs.Take(bytes, context);
    moved.result = slab == nullptr ? CUDA_ERROR_OUT_OF_MEMORY
                                   : api_.cuMemcpyDtoHAsync_v2(slab, base, bytes, stream);
    if (slab != nullptr) copies.push_back(slab);
    if (moved.result != CUDA_SUCCESS) break;
  }
  CUresult copied = api_.cuStreamSynchronize(stream);
  moved.result = moved.result == CUDA_SUCCESS ? copied : moved.result;
  if (moved.result != CUDA_SUCCESS) {  // all stay: half of them would free no room worth the copy
    for (std::byte* slab : copies) slabs.Put(slab);
    return moved;
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto [base, bytes] = chunks[i];
    std::lock_guard lock(mutex_);
    Chunk& chunk = chunks_.at(base);
    DropChunk(base, chunk);
    chunk.handle = 0;
    chunk.out = &slabs;
    chunk.slab = copies[i];
    moved.bytes += bytes;
  }
  return moved;
}

CUresult DeviceMemory::MapAgain(int device, uint64_t base, uint64_t bytes, Chunk* chunk) {
  CUresult result = MapChunk(device, base, bytes, chunk);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(mutex_);
  for (const auto& [owner, accessor] : peers_) {
    if (owner == device) {
      CUmemAccessDesc access{};
      access.location = {CU_MEM_LOCATION_TYPE_DEVICE, accessor};
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      api_.cuMemSetAccess(base, bytes, &access, 1);
    }
  }
  return CUDA_SUCCESS;
}

DeviceMemory::Moved DeviceMemory::MoveDeviceIn(int device, CUstream stream, HostSlabs& slabs) {
  struct Entering {
    uint64_t base = 0;
    Chunk chunk;
    std::byte* slab = nullptr;
  };
  std::vector<Entering> entering;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [base, chunk] : chunks_)
      if (chunk.device == device && chunk.out != nullptr)
        entering.push_back({base, chunk, chunk.slab});
  }
  Moved moved;
  size_t made = 0;
  for (; made < entering.size(); ++made) {
    Entering& each = entering[made];
    uint64_t bytes = each.chunk.bytes;
    moved.result = MapAgain(device, each.base, bytes, &each.chunk);
    if (moved.result != CUDA_SUCCESS) break;
    std::lock_guard lock(mutex_);
    moved.result = api_.cuMemcpyHtoDAsync_v2(each.base, each.slab, bytes, stream);
    if (moved.result != CUDA_SUCCESS) {
      DropChunk(each.base, each.chunk);
      break;
    }
  }
  CUresult copied = api_.cuStreamSynchronize(stream);
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < made; ++i) {
    const Entering& each = entering[i];
    if (copied != CUDA_SUCCESS) {  // the bytes are still in the slab
      DropChunk(each.base, each.chunk);
      continue;
    }
    Chunk& chunk = chunks_.at(each.base);
    chunk.handle = each.chunk.handle;
    chunk.exportable = each.chunk.exportable;
    chunk.out = nullptr;
    chunk.slab = nullptr;
    slabs.Put(each.slab);
    moved.bytes += chunk.bytes;
  }
  moved.result = moved.result == CUDA_SUCCESS ? copied : moved.result;
  return moved;
}

uint64_t DeviceMemory::out_bytes(int device) const {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [base, chunk] : chunks_)
    total += chunk.device == device && chunk.out != nullptr ? chunk.bytes : 0;
  return total;
}

}  // namespace farcall::server
