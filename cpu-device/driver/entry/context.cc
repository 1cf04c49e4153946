// SPDX-License-Identifier: Apache-2.0
// Contexts: making them, the calling thread's stack of them, their limits and settings.
#include "cpu-device/driver/state/context.h"

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/driver/state/thread.h"

namespace farcall::cpu_device {
namespace {

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

CUresult Create(CUcontext* context, unsigned flags, CUdevice ordinal) {
  if (const CUresult result = CheckInitialized()) return result;
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (context == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Context>(*device, false, flags);
  TheDriver().contexts.Add(made);
  ContextStack().push_back(made);
  *context = made->handle();
  return CUDA_SUCCESS;
}

CUresult Destroy(CUcontext handle) {
  if (const CUresult result = CheckInitialized()) return result;
  Driver& driver = TheDriver();
  const std::shared_ptr<Context> context = driver.contexts.Find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->primary()) return CUDA_ERROR_INVALID_CONTEXT;
  driver.contexts.Take(handle);
  context->Reset();
  context->active = false;
  ForgetContext(context.get());
  std::lock_guard lock(driver.graveyard_mutex);
  driver.graveyard.push_back(context);
  return CUDA_SUCCESS;
}

// A live context by its handle; nullptr stands for the current one.
CUresult Find(CUcontext handle, std::shared_ptr<Context>* context) {
  if (handle == nullptr) return CurrentContext(context);
  if (const CUresult result = CheckInitialized()) return result;
  *context = TheDriver().contexts.Find(handle);
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult Pop(CUcontext* context) {
  if (const CUresult result = CheckInitialized()) return result;
  auto& stack = ContextStack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = stack.back() == nullptr ? nullptr : stack.back()->handle();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult Push(CUcontext handle) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<Context> context = TheDriver().contexts.Find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  ContextStack().push_back(context);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return Create(context, flags, device);
}
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return Create(context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int parameters,
                        unsigned int flags, CUdevice device) {
  return parameters != 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : Create(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned int flags,
                        CUdevice device) {
  if (params != nullptr && (params->numExecAffinityParams != 0 || params->cigParams != nullptr))
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return Create(context, flags, device);
}

CUresult cuCtxDestroy(CUcontext context) {
  return Destroy(context);
}
CUresult cuCtxDestroy_v2(CUcontext context) {
  return Destroy(context);
}
CUresult cuCtxPushCurrent(CUcontext context) {
  return Push(context);
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return Push(context);
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  return Pop(context);
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return Pop(context);
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  if (const CUresult result = CheckInitialized()) return result;
  auto& stack = ContextStack();
  if (handle == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<Context> context = TheDriver().contexts.Find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty())
    stack.push_back(context);
  else
    stack.back() = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult result = CheckInitialized()) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& stack = ContextStack();
  *context = stack.empty() || stack.back() == nullptr ? nullptr : stack.back()->handle();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  const CUresult result =
      handle == nullptr ? CurrentContextEvenBroken(&context) : Find(handle, &context);
  if (result != CUDA_SUCCESS) return result;
  *device = context->device().ordinal;
  return CUDA_SUCCESS;
}

// A primary context that nobody holds yet is of a device all the same: CUDA 11's runtime makes one
// current, asks this, and retains it at its first use.
CUresult cuCtxGetDevice(CUdevice* device) {
  if (const CUresult result = CheckInitialized()) return result;
  const auto& stack = ContextStack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::shared_ptr<Context>& context = stack.back();
  const bool is_primary = context == context->device().primary;
  if (!is_primary && !context->active.load()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device().ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = Find(handle, &context)) return result;
  *id = context->id();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  std::shared_ptr<Context> context;
  if (const CUresult result = Find(handle, &context)) return result;
  for (const auto& stream : context->Streams())
    if (stream->capture() != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return context->Synchronize();
}

CUresult cuCtxSynchronize(void) {
  return cuCtxSynchronize_v2(nullptr);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  return context->SetLimit(limit, value);
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  return context->GetLimit(limit, value);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *config = static_cast<CUfunc_cache>(context->cache_config.load());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  if (static_cast<unsigned>(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *config = static_cast<CUsharedconfig>(context->shared_config.load());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  if (static_cast<unsigned>(config) > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  context->shared_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (const CUresult result = Find(handle, &context)) return result;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
  std::shared_ptr<Context> context;
  return CurrentContext(&context);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  std::shared_ptr<Context> context, other;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  other = TheDriver().contexts.Find(peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (&other->device() == &context->device()) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return context->EnablePeer(other.get()) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Context> other = TheDriver().contexts.Find(peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context->DisablePeer(other.get()) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // extern "C"
