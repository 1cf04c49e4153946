// SPDX-License-Identifier: Apache-2.0
// The module and library entries over module.h.
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

CUmodule AsModule(const Module* module) {
  return reinterpret_cast<CUmodule>(module->handle);
}

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

namespace {

// What a module and a library answer alike; `module` is nullptr for a handle that names none.
CUresult Unload(CallId call, Module* module) {
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  DropManagedVariables(module);
  CUresult status = CUDA_SUCCESS;
  if (HasSeveralServers() && module->is_library) {
    for (Session* session : Sessions()) {
      if ((module->servers.load() >> session->index() & 1) == 0) continue;
      const ServerScope scope(session);
      const CUresult posted = PostUnload(call, module->handle);
      if (status == CUDA_SUCCESS) status = posted;
    }
  } else {
    status = PostUnload(call, module->handle);
  }
  DropModule(module);
  return status;
}

template <typename Handle>
CUresult GetByName(Module* module, const char* name, Handle* out) {
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Function* function = nullptr;
  CUresult status = GetFunction(module, name, &function);
  if (status == CUDA_SUCCESS) *out = reinterpret_cast<Handle>(function->handle);
  return status;
}

template <typename Handle>
CUresult EnumerateInto(CallId call, Module* module, unsigned int room, Handle* out) {
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (room == 0) return CUDA_SUCCESS;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Function*> found;
  CUresult status = Enumerate(call, module, room, &found);
  for (size_t i = 0; status == CUDA_SUCCESS && i < found.size(); ++i)
    out[i] = reinterpret_cast<Handle>(found[i]->handle);
  return status;
}

CUresult GetGlobal(Module* module, const char* name, CUdeviceptr* address, size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Symbol symbol;
  CUresult status = GetSymbol(module, name, &symbol);
  if (status != CUDA_SUCCESS) return status;
  if (address != nullptr) *address = symbol.address;
  if (bytes != nullptr) *bytes = symbol.bytes;
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

CUresult Call_cuModuleLoadData(CUmodule* module, const void* image) {
  return LoadModule(module, image, {});
}
CUresult Call_cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return LoadModule(module, fatCubin, {});
}

CUresult Call_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                 CUjit_option* options, void** optionValues) {
  return LoadModule(module, image, {numOptions, options, optionValues});
}

CUresult Call_cuModuleUnload(CUmodule hmod) {
  return Unload(CallId::cuModuleUnload, FindModule(hmod));
}

CUresult Call_cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  return GetByName(FindModule(hmod), name, hfunc);
}

CUresult Call_cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions,
                                         CUmodule mod) {
  return EnumerateInto(CallId::cuModuleEnumerateFunctions, FindModule(mod), numFunctions,
                       functions);
}

CUresult Call_cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                   const char* name) {
  return GetGlobal(FindModule(hmod), name, dptr, bytes);
}

CUresult Call_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                void** jitOptionsValues, unsigned int numJitOptions,
                                CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                unsigned int numLibraryOptions) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* loaded = nullptr;
  CUresult status = LoadImage(code, {numJitOptions, jitOptions, jitOptionsValues}, true, &loaded);
  if (status == CUDA_SUCCESS) *library = reinterpret_cast<CUlibrary>(loaded->handle);
  return status;
}

CUresult Call_cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                    CUjit_option* jitOptions, void** jitOptionsValues,
                                    unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                    void** libraryOptionValues, unsigned int numLibraryOptions) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* loaded = nullptr;
  CUresult status =
      LoadImageFile(fileName, {numJitOptions, jitOptions, jitOptionsValues}, true, &loaded);
  if (status == CUDA_SUCCESS) *library = reinterpret_cast<CUlibrary>(loaded->handle);
  return status;
}

CUresult Call_cuLibraryUnload(CUlibrary library) {
  return Unload(CallId::cuLibraryUnload, FindLibrary(library));
}

CUresult Call_cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  return GetByName(FindLibrary(library), name, pKernel);
}

CUresult Call_cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  return EnumerateInto(CallId::cuLibraryEnumerateKernels, FindLibrary(lib), numKernels, kernels);
}

CUresult Call_cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                 const char* name) {
  return GetGlobal(FindLibrary(library), name, dptr, bytes);
}

CUresult Call_cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  Module* found = FindLibrary(library);
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUmodule handle = nullptr;
  CUresult status = AskWithRoom([&] { return RoundTrip_cuLibraryGetModule(&handle, library); });
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

CUresult Call_cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol) {
  if (fptr == nullptr || symbol == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindLibrary(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_ERROR_NOT_FOUND;  // no address of the device's is one of this process's
}

}  // namespace farcall::client
