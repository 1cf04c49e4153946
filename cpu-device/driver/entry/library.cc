// SPDX-License-Identifier: Apache-2.0
// Libraries and kernels: code that is loaded once and exists in each context.
#include <string>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/code/jit_options.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/work/function_info.h"

namespace farcall::cpu_device {
namespace {

CUresult Load(CUlibrary* out, const void* code, unsigned count, CUjit_option* options,
              void** values) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit;
  if (!jit.Read(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  const JitClock clock(jit);
  std::string ptx;
  if (const CUresult result = CodeOf(code, &ptx, jit)) return result;
  auto library = std::make_shared<Library>(std::move(ptx));
  *out = library->handle();
  TheDriver().libraries.Add(library);
  return CUDA_SUCCESS;
}

// The context to look a library's contents up in: the current one, else the first device's primary
// one.
CUresult AnyContext(std::shared_ptr<Context>* context) {
  const CUresult result = CurrentContext(context);
  if (result != CUDA_ERROR_INVALID_CONTEXT) return result;
  *context = TheDriver().devices[0]->primary;
  return CUDA_SUCCESS;
}

CUresult Enter(CUlibrary handle, std::shared_ptr<Library>* library,
               std::shared_ptr<Context>* context) {
  if (const CUresult result = CheckInitialized()) return result;
  *library = TheDriver().libraries.Find(handle);
  if (*library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return AnyContext(context);
}

CUresult Enter(CUkernel handle, std::shared_ptr<LibraryKernel>* kernel) {
  if (const CUresult result = CheckInitialized()) return result;
  *kernel = LibraryKernels().Find(handle);
  return *kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// A kernel as it is on a device, for attributes.
CUresult OnDevice(CUkernel handle, CUdevice ordinal, std::shared_ptr<LibraryKernel>* kernel,
                  std::shared_ptr<Function>* function) {
  if (const CUresult result = Enter(handle, kernel)) return result;
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Context> context;
  if (CurrentContext(&context) != CUDA_SUCCESS || &context->device() != device)
    context = device->primary;
  return ResolveFunction(*context, handle, function);
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options,
                           void** values, unsigned int count, CUlibraryOption*, void**,
                           unsigned int) {
  return Load(library, code, count, options, values);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options,
                               void** values, unsigned int count, CUlibraryOption*, void**,
                               unsigned int) {
  std::string bytes;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ReadFile(path, &bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return Load(library, bytes.c_str(), count, options, values);
}

CUresult cuLibraryUnload(CUlibrary handle) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<Library> library = TheDriver().libraries.Take(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& kernel : library->TakeKernels()) LibraryKernels().Take(kernel.get());
  for (const auto& module : library->TakeModules()) TheDriver().modules.Take(module.get());
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  std::shared_ptr<Library> library;
  std::shared_ptr<Context> context;
  if (const CUresult result = Enter(handle, &library, &context)) return result;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<LibraryKernel> kernel;
  if (const CUresult result = library->FindKernel(*context, name, &kernel)) return result;
  *out = kernel->handle();
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  std::shared_ptr<Context> context;
  if (const CUresult result = Enter(handle, &library, &context)) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::string> names;
  if (const CUresult result = library->KernelNames(*context, &names)) return result;
  *count = static_cast<unsigned>(names.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  std::shared_ptr<Context> context;
  if (const CUresult result = Enter(handle, &library, &context)) return result;
  if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::string> names;
  if (const CUresult result = library->KernelNames(*context, &names)) return result;
  for (unsigned i = 0; i < count && i < names.size(); ++i)
    if (const CUresult result = cuLibraryGetKernel(&kernels[i], handle, names[i].c_str()))
      return result;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  std::shared_ptr<Library> library;
  std::shared_ptr<Context> context;
  if (const CUresult result = Enter(handle, &library, &context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  if (const CUresult result = library->ModuleIn(*context, &module)) return result;
  *out = module->handle();
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  CUmodule module = nullptr;
  if (const CUresult result = cuLibraryGetModule(&module, handle)) return result;
  return cuModuleGetGlobal_v2(address, bytes, module, name);
}

// __managed__ variables are module-scope variables like others: all of this device's memory is the
// host's. cudart asks before there is a context.
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                             const char* name) {
  std::shared_ptr<Library> library;
  std::shared_ptr<Context> context;
  if (const CUresult result = Enter(handle, &library, &context)) return result;
  std::shared_ptr<Module> module;
  if (const CUresult result = library->ModuleIn(*context, &module)) return result;
  CUdeviceptr variable = 0;
  if (const CUresult result = module->GetGlobal(name, &variable, bytes)) return result;
  TheDriver().ranges.Update(variable, [](Range& range) { range.is_managed_variable = true; });
  if (address != nullptr) *address = variable;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  std::shared_ptr<LibraryKernel> kernel;
  if (const CUresult result = Enter(handle, &kernel)) return result;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> function;
  if (const CUresult result = ResolveFunction(*context, handle, &function)) return result;
  *out = function->handle();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  std::shared_ptr<LibraryKernel> kernel;
  if (const CUresult result = Enter(handle, &kernel)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = kernel->library().handle();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  std::shared_ptr<LibraryKernel> kernel;
  if (const CUresult result = Enter(handle, &kernel)) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name().c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  std::shared_ptr<LibraryKernel> kernel;
  if (const CUresult result = Enter(handle, &kernel)) return result;
  // As NVIDIA's driver, not without a context.
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  std::shared_ptr<Function> function;
  if (const CUresult result = ResolveFunction(*context, handle, &function)) return result;
  return ParamInfo(*function, index, offset, size);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice ordinal) {
  std::shared_ptr<LibraryKernel> kernel;
  std::shared_ptr<Function> function;
  if (const CUresult result = OnDevice(handle, ordinal, &kernel, &function)) return result;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE
                          : FunctionAttribute(*function, attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice ordinal) {
  std::shared_ptr<LibraryKernel> kernel;
  std::shared_ptr<Function> function;
  if (const CUresult result = OnDevice(handle, ordinal, &kernel, &function)) return result;
  if (const CUresult result = SetFunctionAttribute(*function, attribute, value)) return result;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    kernel->max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice) {
  if (static_cast<unsigned>(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<LibraryKernel> kernel;
  return Enter(handle, &kernel);
}

}  // extern "C"
