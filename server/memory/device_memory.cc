// SPDX-License-Identifier: Apache-2.0
// Credit, chunks and allocations.
#include "server/memory/device_memory.h"

#include <algorithm>

#include "server/memory/address_map.h"
#include "server/memory/host_slabs.h"
#include "server/memory/library_memory.h"
#include "server/memory/share_list.h"
#include "server/memory/user_memory.h"

namespace farcall::server {

namespace {

constexpr uint64_t kLargestChunkBytes = 64u << 20;

CUmemAccessDesc FullAccess(int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

}  // namespace

CUresult DeviceMemory::MapChunk(int device, uint64_t base, uint64_t bytes, Chunk* chunk) {
  CUmemAllocationProp properties = PinnedProperties(device, true);
  *chunk = {};
  chunk->bytes = bytes;
  chunk->device = device;
  chunk->exportable = true;
  CUresult result = api_.cuMemCreate(&chunk->handle, bytes, &properties, 0);
  if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE) {
    // A device that cannot export its memory still can have it.
    chunk->exportable = false;
    properties = PinnedProperties(device, false);
    result = api_.cuMemCreate(&chunk->handle, bytes, &properties, 0);
  }
  if (result != CUDA_SUCCESS) return result;
  result = api_.cuMemMap(base, bytes, 0, chunk->handle, 0);
  if (result != CUDA_SUCCESS) {
    api_.cuMemRelease(chunk->handle);
    return result;
  }
  CUmemAccessDesc access = FullAccess(device);
  result = api_.cuMemSetAccess(base, bytes, &access, 1);
  if (result != CUDA_SUCCESS) DropChunk(base, *chunk);
  return result;
}

void DeviceMemory::DropChunk(uint64_t base, const Chunk& chunk) {
  if (chunk.out != nullptr) return chunk.out->Put(chunk.slab);
  api_.cuMemUnmap(base, chunk.bytes);
  api_.cuMemRelease(chunk.handle);
}

CUresult DeviceMemory::Grant(int device, uint64_t bytes, Window* range, std::string* detail,
                             uint64_t ahead) {
  constexpr int kTries = 3;
  uint64_t room = CreditHalf(window_).bytes;
  if (!has_window() || bytes == 0 || bytes > room) {
    *detail = "device memory: asked " + std::to_string(bytes) + " bytes, the window has " +
              std::to_string(room);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  bytes = (bytes + kChunkGranularityBytes - 1) / kChunkGranularityBytes * kChunkGranularityBytes;
  uint64_t whole = bytes + ahead / kChunkGranularityBytes * kChunkGranularityBytes;
  bool device_refused = false;
  CUresult result = GrantNew(device, whole, bytes, range, detail, &device_refused);
  for (int i = 1; i < kTries && device_refused && broker_.NoteDeviceFull(device, whole); ++i)
    result = GrantNew(device, whole, bytes, range, detail, &device_refused);
  return result == CUDA_SUCCESS || !Regrant(device, whole, range) ? result : CUDA_SUCCESS;
}

CUresult DeviceMemory::GrantNew(int device, uint64_t bytes, uint64_t first, Window* range,
                                std::string* detail, bool* device_refused) {
  const auto credit = static_cast<int64_t>(bytes);
  *device_refused = false;
  broker_.use().Unspent(device, credit);
  if (Status charged = Charge(device, bytes); !charged.ok()) {
    broker_.use().Unspent(device, -credit);
    *detail = charged.message();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::unique_lock lock(mutex_);
  uint64_t base = TakeRange(bytes);
  lock.unlock();  // the driver may take long to map; the range is ours
  std::map<uint64_t, Chunk> made;
  CUresult result =
      base == 0 ? CUDA_ERROR_OUT_OF_MEMORY : MapChunks(device, base, bytes, first, &made);
  lock.lock();
  if (result != CUDA_SUCCESS) {
    if (base != 0) PutRange(base, bytes);
    *device_refused = base != 0 && result == CUDA_ERROR_OUT_OF_MEMORY;
    broker_.use().Returning(device, bytes);
    broker_.Refund(device, bytes);
    broker_.use().Unspent(device, -credit);
    *detail = "device memory: the device refused " + std::to_string(bytes) + " bytes (code " +
              std::to_string(result) + ")";
    return result;
  }
  for (const auto& [owner, accessor] : peers_) {
    for (auto chunk = made.begin(); owner == device && chunk != made.end(); ++chunk) {
      CUmemAccessDesc access = FullAccess(accessor);
      api_.cuMemSetAccess(chunk->first, chunk->second.bytes, &access, 1);
    }
  }
  chunks_.merge(made);
  AddCredit(base, bytes, device);
  *range = {base, bytes};
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::MapChunks(int device, uint64_t base, uint64_t bytes, uint64_t first,
                                 std::map<uint64_t, Chunk>* made) {
  for (uint64_t mapped = 0; mapped < bytes;) {
    uint64_t step = std::min((mapped < first ? first : bytes) - mapped, kLargestChunkBytes);
    Chunk chunk;
    CUresult result = MapChunk(device, base + mapped, step, &chunk);
    if (result != CUDA_SUCCESS) {
      for (const auto& [at, before] : *made) DropChunk(at, before);
      return result;
    }
    (*made)[base + mapped] = chunk;
    mapped += step;
  }
  return CUDA_SUCCESS;
}

uint64_t DeviceMemory::granted_bytes(int device) const {
  std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [base, chunk] : chunks_) total += chunk.device == device ? chunk.bytes : 0;
  return total;
}

void DeviceMemory::AddCredit(uint64_t base, uint64_t bytes, int device) {
  uint64_t end = base + bytes;
  auto next = credit_.lower_bound(base);
  if (next != credit_.end() && next->first == end && next->second.device == device) {
    end = next->second.end;
    next = credit_.erase(next);
  }
  if (next != credit_.begin()) {
    auto before = std::prev(next);
    if (before->second.end == base && before->second.device == device) {
      before->second.end = end;
      return;
    }
  }
  credit_[base] = {end, device};
}

void DeviceMemory::RemoveCredit(uint64_t base, uint64_t bytes) {
  auto span = AtOrBefore(credit_, base);
  auto [begin, whole] = *span;
  credit_.erase(span);
  if (begin < base) credit_[begin] = {base, whole.device};
  if (base + bytes < whole.end) credit_[base + bytes] = whole;
}

bool DeviceMemory::InCredit(uint64_t address, uint64_t bytes, int device) const {
  auto span = AtOrBefore(credit_, address);
  if (span == credit_.end() || (device >= 0 && span->second.device != device)) return false;
  return address <= span->second.end && bytes <= span->second.end - address;
}

bool DeviceMemory::MeetsAllocation(uint64_t address, uint64_t bytes) const {
  auto next = allocations_.lower_bound(address);
  if (next != allocations_.end() && next->first - address < bytes) return true;
  if (next == allocations_.begin()) return false;
  auto before = std::prev(next);
  return address - before->first < before->second.bytes;
}

bool DeviceMemory::Allocate(int device, uint64_t address, uint64_t bytes, uint16_t context) {
  std::lock_guard lock(mutex_);
  if (bytes == 0 || !InCredit(address, bytes, device) || MeetsAllocation(address, bytes))
    return false;
  allocations_[address] = {bytes, device, context, false};
  broker_.use().Unspent(device, -static_cast<int64_t>(bytes));
  return true;
}

CUresult DeviceMemory::AllocateByDriver(int device, uint64_t bytes, uint16_t context,
                                        uint64_t* address, std::string* detail) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (Status charged = Charge(device, bytes); !charged.ok()) {
    *detail = charged.message();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUdeviceptr got = 0;
  CUresult result = api_.cuMemAlloc_v2(&got, bytes);
  if (result != CUDA_SUCCESS) {
    broker_.Refund(device, bytes);
    return result;
  }
  std::lock_guard lock(mutex_);
  allocations_[got] = {bytes, device, context, true};
  *address = got;
  return CUDA_SUCCESS;
}

bool DeviceMemory::Free(uint64_t address, Freed* freed) {
  std::lock_guard lock(mutex_);
  auto allocation = allocations_.find(address);
  if (allocation == allocations_.end()) return false;
  const Allocation& found = allocation->second;
  *freed = {found.by_driver ? address : 0, found.device, found.bytes};
  EndExport(address);
  if (!found.by_driver) broker_.use().Unspent(found.device, static_cast<int64_t>(found.bytes));
  allocations_.erase(allocation);
  return true;
}

void DeviceMemory::FinishFree(const Freed& freed) {
  if (freed.driver_address == 0) return;
  if (api_.cuMemFree_v2(freed.driver_address) == CUDA_SUCCESS)
    broker_.Refund(freed.device, freed.bytes);
}

void DeviceMemory::FreeContext(uint16_t context) {
  std::lock_guard lock(mutex_);
  for (auto allocation = allocations_.begin(); allocation != allocations_.end();) {
    const Allocation& found = allocation->second;
    if (found.context != context) {
      ++allocation;
      continue;
    }
    // The driver freed its own with the context.
    if (found.by_driver)
      broker_.Refund(found.device, found.bytes);
    else
      broker_.use().Unspent(found.device, static_cast<int64_t>(found.bytes));
    EndExport(allocation->first);
    allocation = allocations_.erase(allocation);
  }
  for (auto object = objects_.begin(); object != objects_.end();) {
    if (object->second.context != context) {
      ++object;
      continue;
    }
    object = DropObject(object);
  }
}

Status DeviceMemory::Charge(int device, uint64_t bytes) {
  Status charged = broker_.Charge(device, bytes);
  return charged.ok() || !AwaitLeaving() ? charged : broker_.Charge(device, bytes);
}

CUresult DeviceMemory::ChargeObject(int device, uint64_t bytes, uint16_t context, uint64_t owner,
                                    std::string* detail) {
  if (Status charged = Charge(device, bytes); !charged.ok()) {
    *detail = charged.message();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::lock_guard lock(mutex_);
  objects_.insert({owner, {device, bytes, context}});
  return CUDA_SUCCESS;
}

std::multimap<uint64_t, DeviceMemory::Object>::iterator DeviceMemory::DropObject(
    std::multimap<uint64_t, Object>::iterator object) {
  broker_.Refund(object->second.device, object->second.bytes);
  if (object->second.leaving) {
    --leaving_;
    left_.notify_all();
  }
  return objects_.erase(object);
}

void DeviceMemory::ObjectLeaves(uint64_t owner) {
  std::lock_guard lock(mutex_);
  auto [object, end] = objects_.equal_range(owner);
  for (; object != end; ++object) {
    if (!object->second.leaving) {
      object->second.leaving = true;
      ++leaving_;
    }
  }
}

bool DeviceMemory::AwaitLeaving() {
  constexpr std::chrono::seconds kPatience{5};
  const bool ended = LibraryMemory::AwaitHelper();
  std::unique_lock lock(mutex_);
  const size_t before = leaving_;
  left_.wait_for(lock, kPatience, [this] { return leaving_ == 0; });
  return ended || leaving_ != before;
}

void DeviceMemory::RefundObject(uint64_t owner) {
  std::lock_guard lock(mutex_);
  auto [object, end] = objects_.equal_range(owner);
  while (object != end) object = DropObject(object);
}

CUresult DeviceMemory::AllowPeer(int owner, int accessor) {
  std::lock_guard lock(mutex_);
  CUmemAccessDesc access = FullAccess(accessor);
  for (const auto& [base, chunk] : chunks_) {
    if (chunk.device != owner || chunk.out != nullptr) continue;
    CUresult result = api_.cuMemSetAccess(base, chunk.bytes, &access, 1);
    if (result != CUDA_SUCCESS) return result;
  }
  peers_.insert({owner, accessor});
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::ShareChunk(uint64_t base, ShareToken* token, uint64_t* bytes,
                                  std::string* detail) {
  std::unique_lock lock(mutex_);
  auto found = chunks_.find(base);
  if (found == chunks_.end()) return CUDA_ERROR_INVALID_VALUE;  // freed and returned meanwhile
  Chunk& chunk = found->second;
  *bytes = chunk.bytes;
  if (!chunk.shared) {
    if (!chunk.exportable) return CUDA_ERROR_NOT_SUPPORTED;
    chunk.being_shared = true;
    lock.unlock();  // asking the supervisor takes a while
    CUresult result =
        ShareMemory(api_, broker_, chunk.handle, chunk.device, chunk.bytes, &chunk.token, detail);
    lock.lock();
    chunk.being_shared = false;
    chunk.shared = result == CUDA_SUCCESS;
    *token = chunk.token;
    if (chunk.returned_bytes == chunk.bytes) {
      RetireChunk(found);
      return CUDA_ERROR_INVALID_VALUE;
    }
    return result;
  }
  *token = chunk.token;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::ExportAllocation(uint64_t address, Export* out, std::string* detail) {
  std::unique_lock lock(mutex_);
  auto allocation = allocations_.find(address);
  if (allocation == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (auto known = exports_.find(address); known != exports_.end()) {
    *out = known->second;
    return CUDA_SUCCESS;
  }
  if (allocation->second.by_driver) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<uint64_t> chunks;
  uint64_t end = address + allocation->second.bytes;
  for (auto chunk = AtOrBefore(chunks_, address); chunk != chunks_.end() && chunk->first < end;
       ++chunk)
    chunks.push_back(chunk->first);
  lock.unlock();
  ShareList list;
  for (uint64_t base : chunks) {
    ShareList::Piece piece;
    CUresult result = ShareChunk(base, &piece.token, &piece.bytes, detail);
    if (result != CUDA_SUCCESS) return result;
    list.pieces.push_back(piece);
  }
  *out = {{}, list.bytes(), address - chunks.front()};
  if (Status shared = ShareBytes(broker_, EncodeShareList(list), &out->token); !shared.ok()) {
    *detail = shared.message();
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  lock.lock();
  if (allocations_.find(address) == allocations_.end()) {
    broker_.DropShared(out->token);
    return CUDA_ERROR_INVALID_VALUE;
  }
  exports_[address] = *out;
  return CUDA_SUCCESS;
}

void DeviceMemory::EndExport(uint64_t address) {
  auto found = exports_.find(address);
  if (found != exports_.end()) {
    broker_.DropShared(found->second.token);
    exports_.erase(found);
  }
}

void DeviceMemory::AddForeign(uint64_t address, uint64_t bytes, uint64_t owner) {
  std::lock_guard lock(mutex_);
  auto [first, last] = foreign_.equal_range(address);
  for (auto at = first; at != last; ++at)
    if (at->second.owner == owner) return;
  foreign_.emplace(address, Foreign{bytes, owner});
}

void DeviceMemory::RemoveForeign(uint64_t owner) {
  std::lock_guard lock(mutex_);
  std::erase_if(foreign_, [owner](const auto& entry) { return entry.second.owner == owner; });
}

bool DeviceMemory::Contains(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  if (InCredit(address, bytes, -1)) return true;
  auto allocation = AtOrBefore(allocations_, address);
  if (allocation != allocations_.end()) {
    uint64_t offset = address - allocation->first;
    if (offset <= allocation->second.bytes && bytes <= allocation->second.bytes - offset)
      return true;
  }
  for (auto at = foreign_.upper_bound(address); at != foreign_.begin();) {
    --at;
    uint64_t offset = address - at->first;
    if (offset <= at->second.bytes && bytes <= at->second.bytes - offset) return true;
    if (offset > (1ull << 32)) {
      break;
    }  // globals are far smaller than that
  }
  return false;
}

}  // namespace farcall::server
