// SPDX-License-Identifier: Apache-2.0
// Physical memory and mappings of the application's own.
#include "server/memory/user_memory.h"

#include <unistd.h>

#include <iterator>

#include "proto/codec.h"
#include "proto/cuda/memory_flags.h"
#include "server/memory/share_list.h"

namespace farcall::server {

namespace {

bool Aligned(uint64_t value) {
  return value % kChunkGranularityBytes == 0;
}

void* AsOsHandle(int descriptor) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
}

}  // namespace

CUmemAllocationProp PinnedProperties(int device, bool exportable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes =
      exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}

CUresult UserMemory::Create(int device, uint64_t bytes, uint32_t flags,
                            std::unique_ptr<PhysicalMemory>* memory, std::string* detail) {
  if (Status charged = broker_.Charge(device, bytes); !charged.ok()) {
    *detail = charged.message();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto made = std::make_unique<PhysicalMemory>();
  made->bytes = bytes;
  made->device = device;
  made->exportable = (flags & kMemoryExportable) != 0;
  CUmemAllocationProp properties = PinnedProperties(device, made->exportable);
  properties.allocFlags.usage = static_cast<unsigned short>(flags >> kMemoryUsageShift);
  CUresult result = api_.cuMemCreate(&made->native, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) {
    broker_.Refund(device, bytes);
    *detail = "device memory: the device refused " + std::to_string(bytes) + " bytes (code " +
              std::to_string(result) + ")";
    return result;
  }
  *memory = std::move(made);
  return CUDA_SUCCESS;
}

CUresult UserMemory::Export(PhysicalMemory& memory, ShareToken* token, std::string* detail) {
  if (!memory.exportable) return CUDA_ERROR_INVALID_VALUE;
  if (!memory.shared) {
    CUresult result = ShareMemory(api_, broker_, memory.native, memory.device, memory.bytes,
                                  &memory.token, detail);
    if (result != CUDA_SUCCESS) return result;
    memory.shared = true;
  }
  *token = memory.token;
  return CUDA_SUCCESS;
}

CUresult UserMemory::Import(const ShareToken& token, std::unique_ptr<PhysicalMemory>* memory,
                            std::string* detail) {
  Shared shared;
  if (Status redeemed = broker_.Redeem(token, &shared); !redeemed.ok()) {
    *detail = redeemed.message();
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto made = std::make_unique<PhysicalMemory>();
  made->bytes = shared.bytes;
  made->device = shared.device;
  made->exportable = made->shared = made->imported = true;
  made->token = token;
  // A list under an IPC handle's token has no bytes: it is no memory.
  CUresult result = shared.bytes == 0 ? CUDA_ERROR_INVALID_VALUE
                                      : api_.cuMemImportFromShareableHandle(
                                            &made->native, AsOsHandle(shared.descriptor),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(shared.descriptor);
  if (result != CUDA_SUCCESS) {
    broker_.DropShared(token);
    return result;
  }
  *memory = std::move(made);
  return CUDA_SUCCESS;
}

void UserMemory::Release(PhysicalMemory& memory) {
  if (memory.multicast != nullptr) return ReleaseMulticast(memory);
  api_.cuMemRelease(memory.native);
  if (memory.shared) {
    broker_.DropShared(memory.token);
    if (!memory.imported) broker_.use().Charged(memory.device, -static_cast<int64_t>(memory.bytes));
  } else {
    broker_.Refund(memory.device, memory.bytes);
  }
}

bool UserMemory::OverlapsLocked(uint64_t address, uint64_t bytes) const {
  auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first - address < bytes) return true;
  return next != mappings_.begin() &&
         address - std::prev(next)->first < std::prev(next)->second.bytes;
}

bool UserMemory::MayMap(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  return bytes != 0 && Aligned(address) && Aligned(bytes) && window_.Contains(address, bytes) &&
         !OverlapsLocked(address, bytes);
}

CUresult UserMemory::Map(uint64_t address, uint64_t bytes, uint64_t offset,
                         PhysicalMemory& memory) {
  CUresult result = api_.cuMemMap(address, bytes, offset, memory.native, 0);
  if (result == CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    mappings_[address] = {bytes, &memory, false, false};
    ++*memory.mappings;
  }
  return result;
}

bool UserMemory::Unmap(uint64_t address, uint64_t bytes, CUresult* result) {
  std::lock_guard lock(mutex_);
  uint64_t left = bytes;
  auto first = mappings_.find(address), at = first;
  while (left != 0 && at != mappings_.end() && at->first == address + (bytes - left) &&
         at->second.bytes <= left && !at->second.lent) {
    left -= at->second.bytes;
    ++at;
  }
  if (left != 0 || bytes == 0) return false;
  *result = api_.cuMemUnmap(address, bytes);
  if (*result == CUDA_SUCCESS) {
    for (auto mapping = first; mapping != at; ++mapping) --*mapping->second.memory->mappings;
    mappings_.erase(first, at);
  }
  return true;
}

bool UserMemory::SetAccess(uint64_t address, uint64_t bytes, const CUmemAccessDesc& access,
                           CUresult* result) {
  std::lock_guard lock(mutex_);
  auto at = mappings_.upper_bound(address);
  if (bytes == 0 || at == mappings_.begin()) return false;
  auto first = --at;
  for (uint64_t next = address; next - address < bytes; ++at) {
    if (at == mappings_.end() || at->first > next || next - at->first >= at->second.bytes ||
        at->second.lent)
      return false;
    next = at->first + at->second.bytes;
  }
  *result = api_.cuMemSetAccess(address, bytes, &access, 1);
  if (*result == CUDA_SUCCESS) {
    for (auto mapping = first; mapping != at; ++mapping) {
      // Only multimem instructions reach what is bound to a multicast object.
      mapping->second.accessible = access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                                   mapping->second.memory->multicast == nullptr;
    }
  }
  return true;
}

bool UserMemory::Contains(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  auto at = mappings_.upper_bound(address);
  if (at == mappings_.begin()) return false;
  --at;
  for (uint64_t next = address;;) {
    if (at == mappings_.end() || at->first > next || next - at->first >= at->second.bytes ||
        !at->second.accessible)
      return false;
    next = at->first + at->second.bytes;
    if (bytes <= next - address) return true;
    ++at;
  }
}

CUresult UserMemory::MapLent(const std::vector<std::byte>& list, uint64_t address, uint64_t bytes,
                             Lent* lent, int* device, std::string* detail) {
  ShareList pieces;
  if (!DecodeShareList(list, &pieces) || pieces.bytes() != bytes) return CUDA_ERROR_INVALID_VALUE;
  for (const ShareList::Piece& piece : pieces.pieces) {
    std::unique_ptr<PhysicalMemory> chunk;
    CUresult result = Import(piece.token, &chunk, detail);
    if (result != CUDA_SUCCESS) return result;
    uint64_t at = address + lent->bytes;
    *device = chunk->device;
    lent->chunks.push_back(std::move(chunk));
    PhysicalMemory& memory = *lent->chunks.back();
    result = memory.bytes != piece.bytes ? CUDA_ERROR_INVALID_VALUE
                                         : api_.cuMemMap(at, piece.bytes, 0, memory.native, 0);
    if (result != CUDA_SUCCESS) return result;
    ++*memory.mappings;
    lent->bytes += piece.bytes;
  }
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, *device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return api_.cuMemSetAccess(address, bytes, &access, 1);
}

void UserMemory::UnmapLent(uint64_t address, Lent& lent) {
  if (lent.bytes != 0) api_.cuMemUnmap(address, lent.bytes);
  for (std::unique_ptr<PhysicalMemory>& chunk : lent.chunks) Release(*chunk);
}

CUresult UserMemory::OpenIpc(const ShareToken& token, uint64_t address, uint64_t bytes, int* device,
                             std::string* detail) {
  std::vector<std::byte> list;
  if (Status read = ReadShared(broker_, token, &list); !read.ok()) {
    *detail = read.message();
    return CUDA_ERROR_INVALID_VALUE;
  }
  Lent lent;
  CUresult result = MapLent(list, address, bytes, &lent, device, detail);
  if (result != CUDA_SUCCESS) {
    UnmapLent(address, lent);
    return result;
  }
  std::lock_guard lock(mutex_);
  uint64_t at = address;
  for (const std::unique_ptr<PhysicalMemory>& chunk : lent.chunks) {
    mappings_[at] = {chunk->bytes, chunk.get(), true, true};
    at += chunk->bytes;
  }
  lent_[address] = std::move(lent);
  return CUDA_SUCCESS;
}

bool UserMemory::HasIpc(uint64_t address) const {
  std::lock_guard lock(mutex_);
  return lent_.count(address) != 0;
}

void UserMemory::CloseIpc(uint64_t address) {
  Lent lent;
  {
    std::lock_guard lock(mutex_);
    auto found = lent_.find(address);
    if (found == lent_.end()) return;
    lent = std::move(found->second);
    lent_.erase(found);
    mappings_.erase(mappings_.lower_bound(address), mappings_.lower_bound(address + lent.bytes));
  }
  UnmapLent(address, lent);
}

}  // namespace farcall::server
