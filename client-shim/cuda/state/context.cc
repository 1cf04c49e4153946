// SPDX-License-Identifier: Apache-2.0
// Contexts: the stack, the primary refcounts and the flags are ours; the worker creates and
// destroys.
#include "client-shim/cuda/state/context.h"

#include <algorithm>
#include <vector>

#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/array.h"
#include "client-shim/cuda/objects/memory_pool.h"
#include "client-shim/cuda/objects/texture.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/settled.h"
#include "client-shim/cuda/state/stream.h"
#include "cuda-abi/export_tables.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct Primary {
  Context* context = nullptr;
  unsigned references = 0;
  unsigned flags = 0;
};

struct Primaries {
  std::mutex mutex;
  std::vector<Primary> by_device;
  Primary& Of(int device) {
    if (by_device.size() <= static_cast<size_t>(device)) by_device.resize(device + 1);
    return by_device[device];
  }
};
Primaries* g_primaries = new Primaries;

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

Context* ContextLocked(int ordinal) {
  const Device* device = FindDevice(ordinal);
  if (device == nullptr) return nullptr;
  Primary& primary = g_primaries->Of(ordinal);
  if (primary.context == nullptr) {
    primary.context = NewContext(ordinal, *device, true, primary.flags);
    if (primary.context != nullptr) primary.context->alive.store(false);
  }
  return primary.context;
}

CUresult PostRetain(Context* context) {
  const ServerScope scope(context->session);
  FixedBody<16> body;
  body.Put<int32_t>(context->server_device);
  body.Put<uint64_t>(context->handle);
  return Post(CallId::cuDevicePrimaryCtxRetain, body.bytes());
}

CUresult PostHandle(CallId call, const Context* context) {
  const ServerScope scope(context->session);
  FixedBody<8> body;
  body.Put<uint64_t>(context->handle);
  return RoundTrip(call, body.bytes(), nullptr);
}

void Push(ThreadState* self, Context* context) {
  if (self->current != nullptr) self->stack.push_back(self->current);
  self->current = context;
}

Context* Pop(ThreadState* self) {
  Context* top = self->current;
  self->current = self->stack.empty() ? nullptr : self->stack.back();
  if (!self->stack.empty()) self->stack.pop_back();
  return top;
}

// A null handle means the current context, as the calls that take one define it.
Context* ContextOrCurrent(CUcontext handle) {
  return handle == nullptr ? CurrentContext() : FindContext(handle);
}

}  // namespace

Context* PrimaryContext(int device) {
  std::lock_guard lock(g_primaries->mutex);
  return ContextLocked(device);
}

void DropContextHandles(Context* context) {
  context->ends.fetch_add(1);
  Handles(HandleKind::kStream).FreeIf([context](void* object) {
    return object != nullptr && static_cast<Stream*>(object)->context == context;
  });
  Handles(HandleKind::kEvent).FreeIf([context](void* object) {
    return object != nullptr && static_cast<Event*>(object)->context == context;
  });
  DropContextArrays(context);
  DropContextTextures(context);
  context->unordered_streams.store(0);
}

void DropContextMemory(Context* context) {
  Credit& credit = context->session->credit();
  DropPoolMemory(context);
  for (const Allocation& allocation : Memory().RemoveContext(context)) {
    if (allocation.pool != nullptr) CountUnused(allocation.pool, allocation.charged_bytes);
    if (allocation.charged_bytes == 0) continue;
    credit.GiveBack({allocation.server_device, allocation.base, allocation.charged_bytes});
  }
  credit.Freed(context->slot, ~0ull);
}

CUresult Call_cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_primaries->mutex);
  Context* context = ContextLocked(dev);
  if (context == nullptr)
    return FindDevice(dev) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_OUT_OF_MEMORY;
  Primary& primary = g_primaries->Of(dev);
  if (!context->alive.load()) {  // never retained, or reset since
    CUresult posted = PostRetain(context);
    if (posted != CUDA_SUCCESS) return posted;
    context->flags = primary.flags;
    context->alive.store(true);
    NoteContext(context);
  }
  ++primary.references;
  *pctx = AsCuda(context);
  return CUDA_SUCCESS;
}

CUresult Call_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(g_primaries->mutex);
  Primary& primary = g_primaries->Of(dev);
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  // The last release leaves the worker's context as it is: the next retain finds it, a reset
  // empties it.
  --primary.references;
  return CUDA_SUCCESS;
}

CUresult Call_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(g_primaries->mutex);
  Context* context = g_primaries->Of(dev).context;
  if (context == nullptr || !context->alive.load()) return CUDA_SUCCESS;
  cuda_abi::DestroyContextStorage(AsCuda(context));
  const ServerScope scope(context->session);
  FixedBody<16> body;
  body.Put<int32_t>(context->server_device);
  CUresult status = RoundTrip(CallId::cuDevicePrimaryCtxReset_v2, body.bytes(), nullptr);
  if (status != CUDA_SUCCESS) return status;
  context->alive.store(false);
  context->sticky.store(false);
  context->late_error.store(0);
  context->lost_work.store(0);
  DropContextHandles(context);
  DropContextMemory(context);
  return CUDA_SUCCESS;
}

CUresult Call_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_primaries->mutex);
  Primary& primary = g_primaries->Of(dev);
  primary.flags = flags;
  if (primary.context != nullptr) primary.context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult Call_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_primaries->mutex);
  Primary& primary = g_primaries->Of(dev);
  *flags = primary.flags;
  *active = primary.references != 0 && primary.context != nullptr && primary.context->alive.load()
                ? 1
                : 0;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* params, unsigned int flags,
                             CUdevice dev) {
  const Device* device = FindDevice(dev);
  if (pctx == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (params != nullptr && (params->numExecAffinityParams != 0 || params->cigParams != nullptr))
    return NotSupported(CallId::cuCtxCreate_v4);
  const ServerScope scope(device->session);
  Context* context = NewContext(dev, *device, false, flags);
  if (context == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  FixedBody<16> body;
  body.Put<uint64_t>(context->handle);
  body.Put<uint32_t>(flags);
  body.Put<int32_t>(device->server_index);
  CUresult status = RoundTrip(CallId::cuCtxCreate_v4, body.bytes(), nullptr);
  if (status != CUDA_SUCCESS) {
    RetireContext(context);
    return status;
  }
  Push(Self(), context);
  *pctx = AsCuda(context);
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                             unsigned int flags, CUdevice dev) {
  if (numParams != 0) return NotSupported(CallId::cuCtxCreate_v3);
  return Call_cuCtxCreate_v4(pctx, nullptr, flags, dev);
}

CUresult Call_cuCtxDestroy_v2(CUcontext ctx) {
  Context* context = FindContext(ctx);
  if (context == nullptr || context->primary || context->green != nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  cuda_abi::DestroyContextStorage(ctx);
  CUresult status = PostHandle(CallId::cuCtxDestroy_v2, context);
  RetireContext(context);
  DropContextHandles(context);
  DropContextMemory(context);
  ThreadState* self = Self();
  if (self->current == context) Pop(self);
  return status;
}

CUresult Call_cuCtxPushCurrent_v2(CUcontext ctx) {
  Context* context = FindContext(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Push(Self(), context);
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxPopCurrent_v2(CUcontext* pctx) {
  ThreadState* self = Self();
  if (self->current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Context* top = Pop(self);
  if (pctx != nullptr) *pctx = AsCuda(top);
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxSetCurrent(CUcontext ctx) {
  ThreadState* self = Self();
  if (ctx == nullptr) {
    Pop(self);
    return CUDA_SUCCESS;
  }
  Context* context = FindContext(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  self->current = context;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxGetCurrent(CUcontext* pctx) {
  if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pctx = AsCuda(CurrentContext());
  return CUDA_SUCCESS;
}

// A primary context that nobody holds yet is of a device all the same: CUDA 11's runtime makes one
// current, asks this, and retains it at its first use.
CUresult Call_cuCtxGetDevice(CUdevice* device) {
  Context* context = CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->primary && !context->alive.load()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  Context* context = ContextOrCurrent(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxGetFlags(unsigned int* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = CurrentContext()->flags;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxSetFlags(unsigned int flags) {
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = RoundTrip_cuCtxSetFlags(flags);
  if (status == CUDA_SUCCESS) CurrentContext()->flags = flags;
  return status;
}

CUresult Call_cuCtxSetLimit(CUlimit limit, size_t value) {
  FixedBody<16> body;
  body.Put<int32_t>(limit);
  body.Put<uint64_t>(value);
  return RoundTrip(CallId::cuCtxSetLimit, body.bytes(), nullptr);
}

CUresult Call_cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  Context* context = ContextOrCurrent(ctx);
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (ctxId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  if (ctx != nullptr && FindContext(ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxSynchronize_v2(CUcontext ctx) {
  Context* context = ContextOrCurrent(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->captures.load(std::memory_order_relaxed) != 0)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (context == CurrentContext() && ContextHasNothingToTell()) {
    TrimPoolsAtWait();
    return TakeErrorAtWait(context);
  }
  const ServerScope scope(context->session);
  PushMirrorsAtWait();
  uint64_t records = CurrentSession()->records();
  CUresult status = PostHandle(CallId::cuCtxSynchronize_v2, context);
  TrimPoolsAtWait();
  if (status != CUDA_SUCCESS) return status;
  if (context == CurrentContext()) NoteContextWaited(records);
  PullMirrors();
  return status;
}

CUresult Call_cuCtxSynchronize() {
  return Call_cuCtxSynchronize_v2(nullptr);
}

}  // namespace farcall::client
