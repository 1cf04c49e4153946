// SPDX-License-Identifier: Apache-2.0
// Host memory that CUDA gave out or was told of. Copies from and to it need no waiting; kernels
// reach a mirror of it (mirror.h), or the memory itself (shared_host.h).
#include <sys/mman.h>
#include <unistd.h>

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/shared_host.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr unsigned kHostAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

uint64_t PageUp(uint64_t bytes) {
  return AlignUp(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

// Its own context, or another server's that has used it; nullptr: there is none.
Context* ContextOn(Session* session, const Allocation& allocation) {
  return allocation.context->session == session ? allocation.context : ContextFor(session);
}

// A copy that still has to land there, or to be read from there, comes first.
CUresult AwaitCopies(const Allocation& allocation) {
  const auto* base = reinterpret_cast<const std::byte*>(allocation.base);
  CUresult status = CUDA_SUCCESS;
  for (Session* session : Sessions()) {
    Transfers& transfers = session->transfers();
    if (!transfers.AnyInRange(base, allocation.bytes) && !transfers.AnyLent(base, allocation.bytes))
      continue;
    Context* context = ContextOn(session, allocation);
    if (context != nullptr) {
      const CUresult landed = Call_cuCtxSynchronize_v2(AsCuda(context));
      if (status == CUDA_SUCCESS) status = landed;
    }
    transfers.AwaitReturned(base, allocation.bytes);
  }
  return status;
}

// Where the server can have it at the same address, if that may be. *is_shared: it is the server's
// memory, too.
void* NewMemory(uint64_t bytes, bool* is_shared) {
  HostWindow& window = HostAddresses();
  if (uint64_t address = window.Take(bytes)) {
    *is_shared = ShareHostMemory(address, bytes, -1) == CUDA_SUCCESS;
    if (*is_shared || HostWindow::Back(address, bytes)) return reinterpret_cast<void*>(address);
    window.Give(address, bytes);
    return nullptr;
  }
  void* memory =
      mmap(nullptr, PageUp(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

CUresult HostAlloc(void** pp, size_t bytes, unsigned flags) {
  if (bytes > (1ull << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (pp == nullptr || bytes == 0 || (flags & ~kHostAllocFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  void* memory = NewMemory(bytes, &allocation.mirrored);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation.base = reinterpret_cast<uint64_t>(memory);
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kHostOwned;
  allocation.context = CurrentContext();
  allocation.server_device = allocation.context->server_device;
  allocation.id = NewBufferId();
  allocation.flags =
      flags | CU_MEMHOSTALLOC_DEVICEMAP;  // under unified addressing all of it counts as mapped
  Memory().Insert(allocation);
  // Its device address need not be asked for: a structure in device memory may hold it.
  CUresult mapped = CUDA_SUCCESS;
  if ((flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0) Expose(allocation, &mapped);
  *pp = memory;
  return CUDA_SUCCESS;
}

// The device has finished with it, and the program has what the device wrote.
CUresult EndMapping(const Allocation& allocation) {
  if (!allocation.mirrored && allocation.alias == 0) return CUDA_SUCCESS;
  CUresult status = CUDA_SUCCESS;
  for (Session* session : Sessions()) {
    if (!IsMirroredBy(allocation, session->index())) continue;
    Context* context = ContextOn(session, allocation);
    if (context == nullptr || !context->alive.load()) continue;
    const CUresult over = Call_cuCtxSynchronize_v2(AsCuda(context));
    if (status == CUDA_SUCCESS) status = over;
  }
  EndMirror(allocation.mirrored ? allocation.base : allocation.alias);
  if (allocation.mirrored) return status;
  Allocation alias;
  Memory().Remove(allocation.alias, &alias);
  HostAddresses().Give(allocation.alias, allocation.bytes);
  return status;
}

}  // namespace

CUresult Call_cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return HostAlloc(pp, bytesize, 0);
}

CUresult Call_cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return HostAlloc(pp, bytesize, Flags);
}

CUresult Call_cuMemFreeHost(void* p) {
  Allocation allocation;
  uint64_t base = reinterpret_cast<uint64_t>(p);
  if (p == nullptr) return CUDA_SUCCESS;
  if (!Memory().Find(base, &allocation) || allocation.base != base ||
      allocation.kind != MemoryKind::kHostOwned)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult landed = AwaitCopies(allocation);
  if (!Memory().Remove(base, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  CUresult ended = EndMapping(allocation);
  if (HostAddresses().Holds(base))
    HostAddresses().Give(base, allocation.bytes);
  else
    munmap(p, PageUp(allocation.bytes));
  return landed != CUDA_SUCCESS ? landed : ended;
}

CUresult Call_cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  Allocation found;
  uint64_t address = reinterpret_cast<uint64_t>(p);
  if (pdptr == nullptr || Flags != 0 || !Memory().Find(address, &found) ||
      found.kind == MemoryKind::kDevice)
    return CUDA_ERROR_INVALID_VALUE;
  if (found.mirrored) {
    *pdptr = address;
    return CUDA_SUCCESS;
  }
  CUresult status = CUDA_SUCCESS;
  CUdeviceptr base = Expose(found, &status);
  if (status == CUDA_SUCCESS) *pdptr = base + (address - found.base);
  return status;
}

CUresult Call_cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  Allocation found;
  if (pFlags == nullptr || !Memory().Find(reinterpret_cast<uint64_t>(p), &found) ||
      found.kind == MemoryKind::kDevice)
    return CUDA_ERROR_INVALID_VALUE;
  *pFlags = found.flags;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  if (p == nullptr || bytesize == 0 || (Flags & ~kRegisterFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return NotSupported(CallId::cuMemHostRegister_v2);
  uint64_t base = reinterpret_cast<uint64_t>(p);
  if (Memory().Overlaps(base, bytesize)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytesize;
  allocation.kind = MemoryKind::kHostRegistered;
  allocation.context = CurrentContext();
  allocation.server_device = allocation.context->server_device;
  allocation.id = NewBufferId();
  allocation.flags = Flags;
  Memory().Insert(allocation);
  return CUDA_SUCCESS;
}

CUresult Call_cuMemHostUnregister(void* p) {
  Allocation allocation;
  uint64_t base = reinterpret_cast<uint64_t>(p);
  if (!Memory().Find(base, &allocation) || allocation.base != base ||
      allocation.kind != MemoryKind::kHostRegistered)
    return p == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  CUresult landed = AwaitCopies(allocation);
  if (!Memory().Remove(base, &allocation)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  CUresult ended = EndMapping(allocation);
  return landed != CUDA_SUCCESS ? landed : ended;
}

}  // namespace farcall::client
