// SPDX-License-Identifier: Apache-2.0
// Functions and kernels: attributes, names and parameter layouts are known from the load.
#include <algorithm>

#include "client-shim/core/session/answers.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

Function* FromKernel(CUkernel kernel) {
  return FindObject<Function>(HandleKind::kKernel, reinterpret_cast<uint64_t>(kernel));
}

Function* FromFunction(CUfunction function) {
  return FindFunction(reinterpret_cast<uint64_t>(function));
}

CUresult GetAttribute(int* value, int attribute, const Function* function) {
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  const std::atomic<int>* set =
      attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? &function->max_dynamic_shared
      : attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? &function->carveout
                                                                        : nullptr;
  *value = set != nullptr && set->load() >= 0 ? set->load() : function->info->Attribute(attribute);
  return CUDA_SUCCESS;
}

void NoteAttribute(Function* function, int attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    function->SetMaxDynamicShared(value);
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    function->carveout.store(value);
}

uint64_t HashOf(const FunctionSetting& setting) {
  uint64_t hash = setting.handle;
  for (int part : {setting.attribute, setting.device, setting.value}) {
    hash = (hash ^ static_cast<uint32_t>(part)) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 29;
  }
  return hash;
}

Function* RootOf(Function* function) {
  return function->kernel == nullptr ? function : function->kernel;
}

// The device took this, or more of it, before: it will again.
bool WasTaken(const Function* root, const FunctionSetting& wanted) {
  return std::any_of(root->taken.begin(), root->taken.end(), [&](const FunctionSetting& known) {
    if (known.handle != wanted.handle || known.attribute != wanted.attribute ||
        known.device != wanted.device)
      return false;
    return known.value == wanted.value ||
           (wanted.attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
            wanted.value >= 0 && wanted.value < known.value);
  });
}

// What a kernel and its functions say of one another is the driver's business, so setting one
// forgets what was set by the other's handle, and no answer from before holds again.
void NoteSettingLocked(Function* root, const FunctionSetting& set) {
  size_t aliases = std::erase_if(root->settings, [&](const FunctionSetting& known) {
    return known.attribute == set.attribute && known.handle != set.handle;
  });
  if (aliases != 0) ++root->mixed;
  std::erase_if(root->settings, [&](const FunctionSetting& known) {
    return known.attribute == set.attribute && known.device == set.device;
  });
  root->settings.push_back(set);
  uint64_t state = root->mixed * 0x9E3779B97F4A7C15;
  for (const FunctionSetting& known : root->settings) state += HashOf(known);
  root->state = state;
  SetAnswerState(root->handle, state);
  for (const Function::InContext& in : root->functions) SetAnswerState(in.function->handle, state);
}

enum class Verdict { kTaken, kRefused, kUnknown };

// What the limits of the current device say of a value, as the driver would at the call.
Verdict Judge(const Function* function, const FunctionSetting& wanted) {
  const Context* context = CurrentContext();
  // Another device may have another image of it; and what makes the driver load code that may not
  // fit is waited for.
  if (context == nullptr || context->device != wanted.device || MemoryRanOut())
    return Verdict::kUnknown;
  if (wanted.attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    int64_t most =
        FindDevice(wanted.device)->Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    most -= function->info->Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    return wanted.value >= 0 && wanted.value <= most ? Verdict::kTaken : Verdict::kRefused;
  }
  if (wanted.attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return wanted.value >= -1 && wanted.value <= 100 ? Verdict::kTaken : Verdict::kRefused;
  return Verdict::kUnknown;
}

// Libraries set what is set already before each launch, or go to and fro between two values: the
// first changes nothing, the second cannot fail once it was taken, and neither needs an answer; nor
// does what the device's limits allow.
CUresult Set(Function* function, CallId call, const FunctionSetting& wanted,
             std::span<const std::byte> body) {
  Function* root = RootOf(function);
  Verdict verdict = Judge(function, wanted);
  if (verdict == Verdict::kRefused) return CUDA_ERROR_INVALID_VALUE;
  bool was_taken = false;
  {
    std::lock_guard lock(root->mutex);
    if (std::find(root->settings.begin(), root->settings.end(), wanted) != root->settings.end())
      return CUDA_SUCCESS;
    was_taken = verdict == Verdict::kTaken || WasTaken(root, wanted);
  }
  CUresult status = was_taken ? Post(call, body) : RoundTrip(call, body, nullptr);
  if (status != CUDA_SUCCESS) return status;
  NoteAttribute(function, wanted.attribute, wanted.value);
  std::lock_guard lock(root->mutex);
  NoteSettingLocked(root, wanted);
  constexpr size_t kMaxTaken = 64;
  if (!was_taken && root->taken.size() < kMaxTaken) root->taken.push_back(wanted);
  return CUDA_SUCCESS;
}

Function* KnownFunction(Function* kernel, const Context* context) {
  std::lock_guard lock(kernel->mutex);
  for (const Function::InContext& known : kernel->functions)
    if (known.context == context && known.ends == context->ends.load()) return known.function;
  return nullptr;
}

// What makes the driver load code is waited for once memory has run out: what it lacks may lie
// unspent here.
CUresult PostUnlessFull(CallId call, std::span<const std::byte> body) {
  if (!MemoryRanOut()) return Post(call, body);
  return AskWithRoom([&] { return RoundTrip(call, body, nullptr); });
}

CUresult GetParameter(const Function* function, size_t index, size_t* offset, size_t* size) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (index >= function->info->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->info->parameters[index].offset;
  if (size != nullptr) *size = function->info->parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  Function* found = FromKernel(kernel);
  if (pFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (HasSeveralServers()) {
    const CUresult here = BringHere(found);
    if (here != CUDA_SUCCESS) return here;
  }
  const Context* context = CurrentContext();
  if (const Function* known = KnownFunction(found, context)) {
    *pFunc = reinterpret_cast<CUfunction>(known->handle);
    return CUDA_SUCCESS;
  }
  uint32_t ends = context->ends.load();
  CUresult status = CUDA_SUCCESS;
  uint64_t handle = NewHandle(HandleKind::kFunction, &status);
  if (status != CUDA_SUCCESS) return status;
  FixedBody<16> body;  // as Post_cuKernelGetFunction writes it
  body.Put<uint64_t>(handle);
  body.Put<uint64_t>(found->handle);
  status = PostUnlessFull(CallId::cuKernelGetFunction, body.bytes());
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kFunction, handle);
    return status;
  }
  auto* function = new Function;
  function->handle = handle;
  function->parent = found->parent;
  function->kernel = found;
  function->max_dynamic_shared.store(found->max_dynamic_shared.load());
  function->SetInfo(found->info);
  function->is_new.store(found->is_new.load());
  Handles(HandleKind::kFunction).SetObject(function->handle, function);
  std::lock_guard lock(found->mutex);
  found->functions.push_back({context, ends, function});
  if (found->state != 0) SetAnswerState(function->handle, found->state);
  *pFunc = reinterpret_cast<CUfunction>(handle);
  return CUDA_SUCCESS;
}

CUresult Call_cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  Function* found = FromKernel(kernel);
  if (pLib == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pLib = reinterpret_cast<CUlibrary>(found->parent->handle);
  return CUDA_SUCCESS;
}

CUresult Call_cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                   CUdevice dev) {
  Function* found = FromKernel(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return GetAttribute(pi, attrib, found);
}

CUresult Call_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                   CUdevice dev) {
  Function* found = FromKernel(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (HasSeveralServers()) {
    NoteServer(FindDevice(dev)->session);
    const CUresult here = BringHere(found);
    if (here != CUDA_SUCCESS) return here;
  }
  FixedBody<24> body;  // as Post_cuKernelSetAttribute writes it
  body.Put<int32_t>(attrib);
  body.Put<int32_t>(val);
  body.Put<uint64_t>(found->handle);
  body.Put<int32_t>(FindDevice(dev)->server_index);
  return Set(found, CallId::cuKernelSetAttribute, {found->handle, attrib, dev, val}, body.bytes());
}

CUresult Call_cuKernelGetName(const char** name, CUkernel hfunc) {
  Function* found = FromKernel(hfunc);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = found->info->name.c_str();
  return CUDA_SUCCESS;
}

CUresult Call_cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                   size_t* paramSize) {
  Function* found = FromKernel(kernel);
  return found == nullptr ? CUDA_ERROR_INVALID_HANDLE
                          : GetParameter(found, paramIndex, paramOffset, paramSize);
}

CUresult Call_cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  Function* found = FromFunction(hfunc);
  return found == nullptr ? CUDA_ERROR_INVALID_HANDLE : GetAttribute(pi, attrib, found);
}

CUresult Call_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  Function* found = FromFunction(hfunc);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  FixedBody<16> body;  // as Post_cuFuncSetAttribute writes it
  body.Put<uint64_t>(found->handle);
  body.Put<int32_t>(attrib);
  body.Put<int32_t>(value);
  FunctionSetting wanted = {found->handle, attrib, CurrentContext()->device, value};
  return Set(found, CallId::cuFuncSetAttribute, wanted, body.bytes());
}

CUresult Call_cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  Function* found = FromFunction(hfunc);
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->parent->is_library)
    return Call_cuLibraryGetModule(hmod, reinterpret_cast<CUlibrary>(found->parent->handle));
  *hmod = reinterpret_cast<CUmodule>(found->parent->handle);
  return CUDA_SUCCESS;
}

CUresult Call_cuFuncGetName(const char** name, CUfunction hfunc) {
  Function* found = FromFunction(hfunc);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = found->info->name.c_str();
  return CUDA_SUCCESS;
}

CUresult Call_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                                 size_t* paramSize) {
  Function* found = FromFunction(func);
  return found == nullptr ? CUDA_ERROR_INVALID_HANDLE
                          : GetParameter(found, paramIndex, paramOffset, paramSize);
}

}  // namespace farcall::client
