// SPDX-License-Identifier: Apache-2.0
// Device memory: handed out from backed credit at addresses the client chooses.
#include "client-shim/cuda/state/memory.h"

#include <atomic>
#include <functional>
#include <mutex>

#include "client-shim/core/memory/credit_queue.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/objects/memory_pool.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/context.h"
#include "client-shim/cuda/state/green_context.h"
#include "client-shim/cuda/state/ipc.h"
#include "client-shim/cuda/state/managed.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr uint64_t kLargestAllocation = 1ull << 46;
constexpr size_t kPitchAlign = 512;

std::atomic<bool> g_ran_out{false};

// Waits until everything in the device's quarantine may be reused.
CUresult FenceQuarantine(int device) {
  uint32_t from = 0;
  while (const auto next = DeviceCredit().NextQuarantined(device, from)) {
    const auto [slot, epoch] = *next;
    from = slot + 1u;
    // A block is in quarantine before its free is appended: that comes before the question.
    if (Context* context = ContextBySlot(slot)) std::lock_guard lock(context->free_mutex);
    FixedBody<8> body;
    body.Put<uint64_t>(epoch);
    CUresult status = AskSession(SessionCall::kFenceFrees, slot, body.bytes(), nullptr);
    if (status != CUDA_SUCCESS) return status;
    DeviceCredit().Freed(slot, epoch);
  }
  return CUDA_SUCCESS;
}

//   base       where granted: the beginning of the server's new memory
//   available  where refused: what the server would have for this session if nothing of what lies
//              unspent here, or with others of the vGPU, were granted
CUresult AskForCredit(const Context* context, uint64_t bytes, uint64_t* base, uint64_t* available) {
  FixedBody<24> body;
  body.Put<int32_t>(context->server_device);
  body.Put<uint64_t>(AlignUp(bytes, kChunkGranularityBytes));
  body.Put<uint8_t>(1);
  Reply reply;
  CUresult status = AskSession(SessionCall::kNeedCredit, context->slot, body.padded(), &reply);
  Reader outputs = reply.outputs();
  if (status != CUDA_SUCCESS) {
    if (outputs.remaining_bytes() >= sizeof(uint64_t)) *available = outputs.Get<uint64_t>();
    return status;
  }
  *base = outputs.Get<uint64_t>();
  auto granted = outputs.Get<uint64_t>();
  if (!outputs.Done() || !DeviceCredit().AddGrant(context->server_device, *base, granted)) {
    Log(LogLevel::kError, "the server granted memory outside the window");
    return CUDA_ERROR_UNKNOWN;
  }
  return CUDA_SUCCESS;
}

bool ReturnFreeCredit(int server_device, uint16_t context_slot) {
  std::vector<CreditRange> ranges = DeviceCredit().TakeForReturn(server_device, ~0ull >> 1);
  for (const CreditRange& range : ranges) {
    FixedBody<24> body;
    body.Put<int32_t>(range.device);
    body.Put<uint64_t>(range.base);
    body.Put<uint64_t>(range.bytes);
    TellSession(SessionCall::kReturnCredit, context_slot, body.bytes());
  }
  return !ranges.empty();
}

// The server would have too little even if all that is free here went back.
bool IsBeyond(int device, uint64_t bytes, uint64_t available) {
  const uint64_t wanted = AlignUp(bytes, kChunkGranularityBytes);
  const uint64_t returnable = DeviceCredit().ReturnableBytes(device);
  return wanted > returnable && wanted - returnable > available;
}

// Quarantined bytes first (the application waits as its free would have), then the server, then
// everything given back so that the server may grant one contiguous range.
CUresult TakeSlowly(const Context* context, uint64_t bytes, uint64_t* address) {
  int device = context->server_device;
  *address = DeviceCredit().Take(device, bytes);  // another thread's grant has some for this one
  if (*address != 0) return CUDA_SUCCESS;
  CUresult status = CUDA_SUCCESS;
  // What goes back amid this, recalled for another process, is neither here nor there.
  const uint64_t returns = DeviceCredit().returns();
  if (DeviceCredit().QuarantinedBytes(device) >= bytes) {
    status = FenceQuarantine(device);
    if (status != CUDA_SUCCESS) return status;
    *address = DeviceCredit().Take(device, bytes);
    if (*address != 0) return CUDA_SUCCESS;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    uint64_t base = 0, available = ~0ull;
    status = AskForCredit(context, bytes, &base, &available);
    if (status == CUDA_SUCCESS) {
      // Where the server has put it: then what goes back later is whole pieces of its memory.
      *address = DeviceCredit().TakeAt(device, base, bytes);
      if (*address == 0) *address = DeviceCredit().Take(device, bytes);
      if (*address != 0) return CUDA_SUCCESS;
      continue;  // another thread was faster
    }
    if (status == CUDA_ERROR_OUT_OF_MEMORY) g_ran_out.store(true, std::memory_order_relaxed);
    if (status != CUDA_ERROR_OUT_OF_MEMORY || attempt != 0) return status;
    ReleaseIdle(device);  // what pools keep
    status = FenceQuarantine(device);
    if (status != CUDA_SUCCESS) return status;
    *address = DeviceCredit().Take(device, bytes);
    if (*address != 0) return CUDA_SUCCESS;
    if (IsBeyond(device, bytes, available) && DeviceCredit().returns() == returns)
      return CUDA_ERROR_OUT_OF_MEMORY;
    ReturnFreeCredit(device, context->slot);
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Leaked: threads may be in it until the process is gone.
CreditQueue& ShortOfCredit() {
  static auto* const queue = new CreditQueue;
  return *queue;
}

CUresult AllocateByServer(const Context* context, uint64_t bytes, uint64_t* address) {
  FixedBody<24> body;
  body.Put<int32_t>(context->server_device);
  body.Put<uint64_t>(0);
  body.Put<uint64_t>(bytes);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuMemAlloc_v2, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  *address = outputs.Get<uint64_t>();
  return outputs.Done() && *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// The program's to deal with, and farcall doctor's to explain.
void NoteLack(const Context* context, uint64_t bytes) {
  static std::atomic<bool> was_said{false};
  if (LogEnabled(LogLevel::kInfo) && !was_said.exchange(true))
    Log(LogLevel::kInfo, "out of memory: no %llu bytes are left on device %d",
        static_cast<unsigned long long>(bytes), context->server_device);
}

CUresult Allocate(Context* context, uint64_t bytes, uint64_t* address, uint64_t* charged) {
  if (bytes > kLargestAllocation) {
    NoteLack(context, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult late = TakeLateError(context);
  if (late != CUDA_SUCCESS) return late;
  *charged = AlignUp(bytes, kAllocationAlign);
  if (!DeviceCredit().has_window()) {
    *charged = 0;
    return AllocateByServer(context, bytes, address);
  }
  *address = DeviceCredit().Take(context->server_device, *charged);
  if (*address == 0) {
    auto attempt = [&] { return TakeSlowly(context, *charged, address); };
    CUresult status =
        ShortOfCredit().Run(context->server_device, *charged, std::ref(attempt));  // no heap block
    if (status == CUDA_ERROR_OUT_OF_MEMORY) NoteLack(context, *charged);
    if (status != CUDA_SUCCESS) return status;
  }
  FixedBody<24> body;
  body.Put<int32_t>(context->server_device);
  body.Put<uint64_t>(*address);
  body.Put<uint64_t>(*charged);
  CUresult posted = Post(CallId::cuMemAlloc_v2, body.bytes());
  if (posted != CUDA_SUCCESS && CurrentSession() != nullptr &&
      CurrentSession()->ended() == CUDA_SUCCESS)
    RecordLateError(context, posted);  // an older call's: the memory is allocated all the same
  return CUDA_SUCCESS;
}

CUresult FreeAtServer(const Allocation& allocation) {
  Context* context = allocation.context;
  if (!context->alive.load()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  {
    std::lock_guard lock(context->free_mutex);
    uint64_t epoch = ++context->free_epoch;
    if (allocation.charged_bytes != 0) {
      context->session->credit().Quarantine(
          context->slot, epoch,
          {allocation.server_device, allocation.base, allocation.charged_bytes});
    }
    FixedBody<16> body;
    body.Put<uint64_t>(allocation.base);
    body.Put<uint64_t>(epoch);
    Record record = MakeRecord(CallId::cuMemFree_v2, body.bytes());
    record.context = context->slot;
    CUresult posted = PostRecord(record);
    if (posted != CUDA_SUCCESS) return posted;
  }
  Context* current = CurrentContext();
  return current == nullptr ? CUDA_SUCCESS : TakeLateError(current);
}

CUresult AllocateMapped(CUdeviceptr* dptr, size_t bytes) {
  if (dptr == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  // Memory belongs to the primary context, whose part a green one is.
  Context* context = CurrentContext();
  if (context->green != nullptr) context = PrimaryContext(context->device);
  ContextScope scope(context);
  Allocation allocation;
  CUresult status = Allocate(context, bytes, &allocation.base, &allocation.charged_bytes);
  if (status != CUDA_SUCCESS) return status;
  allocation.bytes = bytes;
  allocation.server_device = context->server_device;
  allocation.device = context->device;
  allocation.context = context;
  allocation.id = NewBufferId();
  Memory().Insert(allocation);
  *dptr = allocation.base;
  return CUDA_SUCCESS;
}

// Takes what the application may free out of the map.
bool TakeFreeable(CUdeviceptr dptr, Allocation* allocation) {
  return Memory().Find(dptr, allocation) && allocation->base == dptr &&
         allocation->kind == MemoryKind::kDevice && allocation->owner == 0 &&
         allocation->mapped_handle == 0 && !allocation->borrowed &&
         Memory().Remove(dptr, allocation);
}

// Another process's memory, from a pool. The free waits, so it is over before the exporter's, as it
// must be.
CUresult FreeImported(CUdeviceptr dptr) {
  CUresult status = CUDA_SUCCESS;
  return CloseLent(dptr, LentBy::kPool, &status) ? status : CUDA_ERROR_INVALID_VALUE;
}

CUresult FreeMapped(CUdeviceptr dptr) {
  Allocation allocation;
  if (!TakeFreeable(dptr, &allocation)) return FreeImported(dptr);
  if (allocation.pool != nullptr) CountUnused(allocation.pool, allocation.charged_bytes);
  return FreeAtServer(allocation);
}

// In stream order, memory is usable at once: earlier than asked is within the rule.
CUresult AllocateFromPool(CUdeviceptr* dptr, size_t bytes, MemPool* pool, CUstream stream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (dptr == nullptr || bytes == 0 || pool == nullptr || IsImported(pool))
    return CUDA_ERROR_INVALID_VALUE;
  if (Captures(FindStream(stream))) return CaptureAllocation(stream, dptr, bytes);
  if (!DeviceCredit().has_window()) return AllocateMapped(dptr, bytes);
  uint64_t charged = AlignUp(bytes, kAllocationAlign);
  Context* context = CurrentContext();
  if (context->device != DeviceOf(pool)) context = PrimaryContext(DeviceOf(pool));
  Allocation allocation;
  bool reused = bytes <= kLargestAllocation && TakeIdle(pool, wire, charged, &allocation);
  if (reused) charged = allocation.charged_bytes;
  if (bytes > kLargestAllocation || !CountUsed(pool, charged)) {
    if (reused) FreeBlock(allocation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!reused) {
    status = Allocate(context, bytes, &allocation.base, &allocation.charged_bytes);
    if (status != CUDA_SUCCESS) {
      CountUnused(pool, charged);
      return status;
    }
    allocation.server_device = context->server_device;
    allocation.device = context->device;
    allocation.context = context;
    allocation.pool = pool;
  }
  allocation.bytes = bytes;
  allocation.id = NewBufferId();
  Memory().Insert(allocation);
  *dptr = allocation.base;
  return CUDA_SUCCESS;
}

}  // namespace

bool MemoryRanOut() {
  return g_ran_out.load(std::memory_order_relaxed);
}

bool GiveUpCredit(int server_device, uint16_t context_slot) {
  ReleaseIdle(server_device);
  FenceQuarantine(server_device);
  return ReturnFreeCredit(server_device, context_slot);
}

CUresult Call_cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  return AllocateMapped(dptr, bytesize);
}

CUresult Call_cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                 size_t Height, unsigned int ElementSizeBytes) {
  if (pPitch == nullptr || WidthInBytes == 0 || Height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
    return CUDA_ERROR_INVALID_VALUE;
  if (WidthInBytes > kLargestAllocation) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t pitch = AlignUp(WidthInBytes, kPitchAlign), bytes = 0;
  if (__builtin_mul_overflow(pitch, Height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult status = Call_cuMemAlloc_v2(dptr, bytes);
  if (status == CUDA_SUCCESS) *pPitch = pitch;
  return status;
}

CUresult Call_cuMemFree_v2(CUdeviceptr dptr) {
  CUresult status = CUDA_SUCCESS;
  if (dptr == 0 || FreeGraphMemory(dptr, &status) || FreeManaged(dptr, &status)) return status;
  return FreeMapped(dptr);
}

CUresult FreeBlock(const Allocation& block) {
  return FreeAtServer(block);
}

CUresult Call_cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return AllocateFromPool(dptr, bytesize, CurrentPool(CurrentContext()->device), hStream);
}

CUresult Call_cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream) {
  return AllocateFromPool(dptr, bytesize, FindPool(pool), hStream);
}

CUresult Call_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS || dptr == 0) return status;
  if (Captures(FindStream(hStream))) return CaptureFree(hStream, dptr);
  if (FreeGraphMemory(dptr, &status)) return status;
  Allocation allocation;
  if (!TakeFreeable(dptr, &allocation)) return FreeImported(dptr);
  if (allocation.pool == nullptr) return FreeAtServer(allocation);
  KeepIdle(allocation.pool, wire, allocation);
  return TakeLateError(CurrentContext());
}

CUresult Call_cuMemGetInfo_v2(size_t* free, size_t* total) {
  FixedBody<8> body;
  body.Put<int32_t>(CurrentContext()->server_device);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuMemGetInfo_v2, body.padded(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  auto free_bytes = outputs.Get<uint64_t>();
  auto total_bytes = outputs.Get<uint64_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  // The ledger has charged what was granted; what nobody allocated of it is free all the same, and
  // so is what was freed.
  int device = CurrentContext()->server_device;
  free_bytes += DeviceCredit().FreeBytes(device) + DeviceCredit().QuarantinedBytes(device);
  if (free != nullptr) *free = free_bytes < total_bytes ? free_bytes : total_bytes;
  if (total != nullptr) *total = total_bytes;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  Allocation found;
  // The driver's own host memory has a range, too; what was registered has none.
  if (!Memory().Find(dptr, &found) || found.kind == MemoryKind::kHostRegistered)
    return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = found.base;
  if (psize != nullptr) *psize = found.bytes;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
