// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and its pools.
#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/graph/graph_memory.h"
#include "cpu-device/driver/memory/mempool.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/memory.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

CUresult Find(CUmemoryPool handle, std::shared_ptr<MemPool>* pool) {
  if (const CUresult result = CheckInitialized()) return result;
  *pool = TheDriver().pools.Find(handle);
  return *pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

std::shared_ptr<MemPool> CurrentPool(Device& device) {
  std::lock_guard lock(device.pool_mutex);
  return device.current_pool;
}

CUresult EnterStream(CUstream handle, std::shared_ptr<Context>* context,
                     std::shared_ptr<Stream>* stream) {
  if (const CUresult result = CurrentContext(context)) return result;
  *stream = (*context)->FindStream(handle);
  if (*stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return (*stream)->capture() == nullptr ? CUDA_SUCCESS : RefuseWhileCapturing(**stream);
}

// Nodes of a capture.
CUresult CaptureAllocation(Context& context, Stream& stream, size_t bytes, CUdeviceptr* out) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::shared_ptr<GraphMemory> memory;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = GraphMemory::Make(context, bytes, &memory)) return result;
  memory->owner = &capture->graph();
  *out = memory->address;
  capture->Append(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC)->memory = std::move(memory);
  return CUDA_SUCCESS;
}

CUresult CaptureFree(Stream& stream, CUdeviceptr address) {
  const std::shared_ptr<Capture> capture = stream.capture();
  if (!capture->valid()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::shared_ptr<GraphMemory> memory = GraphMemory::Find(address);
  if (memory == nullptr || memory->freed_by != nullptr) return RefuseWhileCapturing(stream);
  memory->freed_by = &capture->graph();
  capture->Append(stream, CU_GRAPH_NODE_TYPE_MEM_FREE)->memory = std::move(memory);
  return CUDA_SUCCESS;
}

// The memory is there at once: a use that is ordered behind the call in its stream finds it.
CUresult Allocate(Context& context, const std::shared_ptr<MemPool>& pool, size_t bytes,
                  CUdeviceptr* out) {
  if (out == nullptr || bytes == 0 || pool->imported() >= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!pool->Use(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t address = 0;
  // A pool's device may be another than the context's.
  Context& owner = &pool->device() == &context.device() ? context : *pool->device().primary;
  const CUresult result = AllocateDevice(owner, bytes, RangeKind::kPool, 0, pool, &address);
  if (result != CUDA_SUCCESS) pool->Unuse(bytes);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult DevicePool(CUmemoryPool* out, CUdevice ordinal, bool current) {
  if (const CUresult result = CheckInitialized()) return result;
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = (current ? CurrentPool(*device) : device->default_pool)->handle();
  return CUDA_SUCCESS;
}

bool OnDevice(const CUmemLocation* location, CUmemAllocationType type) {
  return location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
         type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = CurrentContext(&context)) return result;
  stream = context->FindStream(handle);
  if (stream != nullptr && stream->capture() != nullptr)
    return CaptureAllocation(*context, *stream, bytes, out);
  if (const CUresult result = EnterStream(handle, &context, &stream)) return result;
  return Allocate(*context, CurrentPool(context->device()), bytes, out);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool_handle,
                                 CUstream handle) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(pool_handle, &pool)) return result;
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = EnterStream(handle, &context, &stream)) return result;
  return Allocate(*context, pool, bytes, out);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = CurrentContext(&context)) return result;
  stream = context->FindStream(handle);
  // cuSPARSE gives back what it never had.
  if (stream != nullptr && address == 0) return CUDA_SUCCESS;
  if (stream != nullptr && stream->capture() != nullptr) return CaptureFree(*stream, address);
  if (const CUresult result = EnterStream(handle, &context, &stream)) return result;
  CUresult freed = CUDA_SUCCESS;
  if (FreeGraphMemory(address, &freed)) return freed;
  Range range;
  const bool known = TheDriver().ranges.Find(address, &range) && range.start == address;
  if (!known || !(range.pool != nullptr || range.kind == RangeKind::kDevice))
    return CUDA_ERROR_INVALID_VALUE;
  const auto work = [address, pool = range.pool, bytes = range.bytes] {
    const CUresult result =
        FreeDevice(address, {RangeKind::kPool, RangeKind::kDevice, RangeKind::kOpened});
    if (result == CUDA_SUCCESS && pool != nullptr) pool->Unuse(bytes);
    return result;
  };
  return stream->Submit(work, How::kInlineIfIdle, true, Share::kNone);
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || props == nullptr || !OnDevice(&props->location, props->allocType))
    return CUDA_ERROR_INVALID_VALUE;
  Device* device = FindDevice(props->location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
      props->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  auto pool = std::make_shared<MemPool>(*device, props->maxSize, props->handleTypes);
  *out = pool->handle();
  TheDriver().pools.Add(std::move(pool));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(handle, &pool)) return result;
  Device& device = pool->device();
  std::lock_guard lock(device.pool_mutex);
  if (device.default_pool == pool) return CUDA_ERROR_INVALID_VALUE;
  if (device.current_pool == pool) device.current_pool = device.default_pool;
  // Its allocations keep it alive.
  TheDriver().pools.Take(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  // Nothing is ever kept back, so nothing is left to trim.
  std::shared_ptr<MemPool> pool;
  return Find(handle, &pool);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(handle, &pool)) return result;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : pool->SetAttribute(attribute, value);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(handle, &pool)) return result;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : pool->GetAttribute(attribute, value);
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* descriptors, size_t count) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(handle, &pool)) return result;
  if (descriptors == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = descriptors[i].location;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || FindDevice(location.id) == nullptr)
      return CUDA_ERROR_INVALID_DEVICE;
    // The own device's access cannot be taken away.
    const bool own = location.id == pool->device().ordinal;
    if (own && descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_DEVICE;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                            CUmemLocation* location) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(handle, &pool)) return result;
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  // One address space: every device reaches it.
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  return DevicePool(out, device, false);
}
CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  return DevicePool(out, device, true);
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  std::shared_ptr<MemPool> pool;
  if (const CUresult result = Find(handle, &pool)) return result;
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (&pool->device() != device) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device->pool_mutex);
  device->current_pool = pool;
  return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location,
                                CUmemAllocationType type) {
  return OnDevice(location, type) ? DevicePool(out, location->id, false) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return OnDevice(location, type) ? DevicePool(out, location->id, true) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return OnDevice(location, type) ? cuDeviceSetMemPool(location->id, pool)
                                  : CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
