// SPDX-License-Identifier: Apache-2.0
// The module and library entries over module.h.
#include "client-shim/core/calls.h"
#include "client-shim/core/handles.h"
#include "client-shim/cuda/module.h"
#include "client/calls.h"

namespace farcall::client {

namespace {

CUmodule AsModule(const Module* module) { return reinterpret_cast<CUmodule>(module->handle); }

CUresult LoadModule(CUmodule* out, const void* image, const LoadOptions& options) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  CUresult status = LoadImage(image, options, false, &module);
  if (status == CUDA_SUCCESS) *out = AsModule(module);
  return status;
}

CUresult PostUnload(CallId call, uint64_t handle) {
  FixedBody<8> body;
  body.Put<uint64_t>(handle);
  return Post(call, body.bytes());
}

// Names come from the driver; each becomes a function of ours at once.
CUresult Enumerate(CallId call, Module* module, unsigned limit, std::vector<Function*>* functions) {
  FixedBody<8> body;
  body.Put<uint64_t>(module->handle);
  Reply reply;
  CUresult status = RoundTrip(call, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  size_t count = outputs.GetCount(8);
  for (size_t i = 0; i < count && functions->size() < limit; ++i) {
    std::string name(outputs.GetString());
    if (!outputs.ok()) return CUDA_ERROR_UNKNOWN;
    Function* function = nullptr;
    status = GetFunction(module, name.c_str(), &function);
    if (status != CUDA_SUCCESS) return status;
    functions->push_back(function);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuModuleLoad(CUmodule* module, const char* fname) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* loaded = nullptr;
  CUresult status = LoadImageFile(fname, {}, false, &loaded);
  if (status == CUDA_SUCCESS) *module = AsModule(loaded);
  return status;
}

CUresult Call_cuModuleLoadData(CUmodule* module, const void* image) { return LoadModule(module, image, {}); }
CUresult Call_cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) { return LoadModule(module, fatCubin, {}); }

CUresult Call_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                                 void** optionValues) {
  return LoadModule(module, image, {numOptions, options, optionValues});
}

CUresult Call_cuModuleUnload(CUmodule hmod) {
  Module* module = FindModule(hmod);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult status = PostUnload(CallId::cuModuleUnload, module->handle);
  DropModule(module);
  return status;
}

CUresult Call_cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  Module* module = FindModule(hmod);
  if (hfunc == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Function* function = nullptr;
  CUresult status = GetFunction(module, name, &function);
  if (status == CUDA_SUCCESS) *hfunc = reinterpret_cast<CUfunction>(function->handle);
  return status;
}

CUresult Call_cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
  Module* module = FindModule(mod);
  if (functions == nullptr || numFunctions == 0) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<Function*> found;
  CUresult status = Enumerate(CallId::cuModuleEnumerateFunctions, module, numFunctions, &found);
  for (size_t i = 0; status == CUDA_SUCCESS && i < found.size(); ++i) {
    functions[i] = reinterpret_cast<CUfunction>(found[i]->handle);
  }
  return status;
}

CUresult Call_cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  Module* module = FindModule(hmod);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Symbol symbol;
  CUresult status = GetSymbol(module, name, &symbol);
  if (status != CUDA_SUCCESS) return status;
  if (dptr != nullptr) *dptr = symbol.address;
  if (bytes != nullptr) *bytes = symbol.bytes;
  return CUDA_SUCCESS;
}

CUresult Call_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                                unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                void** libraryOptionValues, unsigned int numLibraryOptions) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* loaded = nullptr;
  CUresult status = LoadImage(code, {numJitOptions, jitOptions, jitOptionsValues}, true, &loaded);
  if (status == CUDA_SUCCESS) *library = reinterpret_cast<CUlibrary>(loaded->handle);
  return status;
}

CUresult Call_cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                    void** jitOptionsValues, unsigned int numJitOptions,
                                    CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                    unsigned int numLibraryOptions) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* loaded = nullptr;
  CUresult status = LoadImageFile(fileName, {numJitOptions, jitOptions, jitOptionsValues}, true, &loaded);
  if (status == CUDA_SUCCESS) *library = reinterpret_cast<CUlibrary>(loaded->handle);
  return status;
}

CUresult Call_cuLibraryUnload(CUlibrary library) {
  Module* module = FindLibrary(library);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult status = PostUnload(CallId::cuLibraryUnload, module->handle);
  DropModule(module);
  return status;
}

CUresult Call_cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  Module* module = FindLibrary(library);
  if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Function* kernel = nullptr;
  CUresult status = GetFunction(module, name, &kernel);
  if (status == CUDA_SUCCESS) *pKernel = reinterpret_cast<CUkernel>(kernel->handle);
  return status;
}

CUresult Call_cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  Module* module = FindLibrary(lib);
  if (kernels == nullptr || numKernels == 0) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<Function*> found;
  CUresult status = Enumerate(CallId::cuLibraryEnumerateKernels, module, numKernels, &found);
  for (size_t i = 0; status == CUDA_SUCCESS && i < found.size(); ++i) {
    kernels[i] = reinterpret_cast<CUkernel>(found[i]->handle);
  }
  return status;
}

CUresult Call_cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  Module* module = FindLibrary(library);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Symbol symbol;
  CUresult status = GetSymbol(module, name, &symbol);
  if (status != CUDA_SUCCESS) return status;
  if (dptr != nullptr) *dptr = symbol.address;
  if (bytes != nullptr) *bytes = symbol.bytes;
  return CUDA_SUCCESS;
}

CUresult Call_cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  Module* found = FindLibrary(library);
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUmodule handle = nullptr;
  CUresult status = RoundTrip_cuLibraryGetModule(&handle, library);
  if (status != CUDA_SUCCESS) return status;
  auto* module = new Module;
  module->handle = reinterpret_cast<uint64_t>(handle);
  module->context = CurrentContext();
  module->library = found;
  module->image = found->image;
  Handles(HandleKind::kModule).SetObject(module->handle, module);
  *pMod = handle;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
