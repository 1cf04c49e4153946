// SPDX-License-Identifier: Apache-2.0
// Functions and kernels: attributes, names and parameter layouts are known from the load.
#include <algorithm>

#include "client-shim/core/calls.h"
#include "client-shim/core/devices.h"
#include "client-shim/core/handles.h"
#include "client-shim/cuda/module.h"
#include "client/calls.h"

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

Function* RootOf(Function* function) {
  return function->kernel == nullptr ? function : function->kernel;
}

bool IsSet(Function* function, const Setting& wanted) {
  Function* root = RootOf(function);
  std::lock_guard lock(root->mutex);
  return std::any_of(root->settings.begin(), root->settings.end(), [&](const Setting& known) {
    return known.handle == wanted.handle && known.attribute == wanted.attribute &&
           known.device == wanted.device && known.value == wanted.value;
  });
}

// Libraries set what is set already before each launch: that changes nothing and needs no server.
// What a kernel and its functions say of one another is the driver's business, so setting one
// forgets what was set by the other handles.
template <typename Ask>
CUresult SetOnce(Function* function, const Setting& wanted, Ask ask) {
  if (IsSet(function, wanted)) return CUDA_SUCCESS;
  Function* root = RootOf(function);
  auto forget = [&] {
    std::erase_if(root->settings, [&](const Setting& known) {
      return known.attribute == wanted.attribute &&
             (known.handle != wanted.handle || known.device == wanted.device);
    });
  };
  {
    std::lock_guard lock(root->mutex);
    forget();
  }
  CUresult status = ask();
  if (status != CUDA_SUCCESS) return status;
  NoteAttribute(function, wanted.attribute, wanted.value);
  std::lock_guard lock(root->mutex);
  forget();
  root->settings.push_back(wanted);
  return CUDA_SUCCESS;
}

Function* KnownFunction(Function* kernel, const Context* context) {
  std::lock_guard lock(kernel->mutex);
  for (const Function::InContext& known : kernel->functions) {
    if (known.context == context && known.ends == context->ends.load()) return known.function;
  }
  return nullptr;
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
  const Context* context = CurrentContext();
  if (const Function* known = KnownFunction(found, context)) {
    *pFunc = reinterpret_cast<CUfunction>(known->handle);
    return CUDA_SUCCESS;
  }
  uint32_t ends = context->ends.load();
  CUfunction handle = nullptr;
  CUresult status = RoundTrip_cuKernelGetFunction(&handle, kernel);
  if (status != CUDA_SUCCESS) return status;
  auto* function = new Function;
  function->handle = reinterpret_cast<uint64_t>(handle);
  function->parent = found->parent;
  function->kernel = found;
  function->max_dynamic_shared.store(found->max_dynamic_shared.load());
  function->SetInfo(found->info);
  Handles(HandleKind::kFunction).SetObject(function->handle, function);
  std::lock_guard lock(found->mutex);
  found->functions.push_back({context, ends, function});
  *pFunc = handle;
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
  return SetOnce(found, {found->handle, attrib, dev, val},
                 [=] { return RoundTrip_cuKernelSetAttribute(attrib, val, kernel, dev); });
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
  return SetOnce(found, {found->handle, attrib, CurrentContext()->device, value},
                 [=] { return RoundTrip_cuFuncSetAttribute(hfunc, attrib, value); });
}

CUresult Call_cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  Function* found = FromFunction(hfunc);
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->parent->is_library) {
    return Call_cuLibraryGetModule(hmod, reinterpret_cast<CUlibrary>(found->parent->handle));
  }
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
