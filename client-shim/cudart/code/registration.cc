// SPDX-License-Identifier: Apache-2.0
// The entries that nvcc's host code calls (crt/host_runtime.h), and what they feed.
#include <cstring>
#include <unordered_map>

#include "client-shim/cudart/code/libdevice.h"
#include "client-shim/cudart/code/registry.h"
#include "client-shim/cudart/code/symbol_table.h"
#include "client-shim/cudart/fork.h"
#include "client-shim/cudart/refuse.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

// None is ever destroyed: handlers of exit unregister after our own.
FARCALL_FORKED_MUTEX(g_mutex);
auto* g_kernels = new SymbolTable<Kernel>;
auto* g_variables = new SymbolTable<Variable>;
auto* g_by_handle = new std::unordered_map<const void*, Kernel*>;

FatBinary* BinaryOf(void** handle) {
  return reinterpret_cast<FatBinary*>(handle);
}

// Managed variables get their addresses with the module: the host reads them through its pointers.
cudaError_t PlaceManaged(FatBinary* binary, CUlibrary library) {
  for (Variable* variable : binary->variables) {
    if (variable->managed == nullptr) continue;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CUresult result = g_driver.cuLibraryGetManaged(&address, &bytes, library, variable->name);
    if (result != CUDA_SUCCESS) return FromDriver(result);
    *variable->managed = reinterpret_cast<void*>(address);
    // In host code the variable's address is this one.
    std::lock_guard<std::mutex> lock(*g_mutex);
    g_variables->Put(*variable->managed, variable);
  }
  return cudaSuccess;
}

cudaError_t LoadBinary(FatBinary* binary, CUlibrary* library) {
  *library = binary->library.load(std::memory_order_acquire);
  if (*library != nullptr) return cudaSuccess;
  std::lock_guard<std::mutex> lock(binary->mutex);
  *library = binary->library.load(std::memory_order_relaxed);
  if (*library != nullptr) return cudaSuccess;
  if (binary->failed != cudaSuccess) return binary->failed;
  CUresult result = g_driver.cuLibraryLoadData(library, binary->wrapper, nullptr, nullptr, 0,
                                               nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) return binary->failed = FromDriver(result);
  if (cudaError_t error = PlaceManaged(binary, *library); error != cudaSuccess) return error;
  binary->library.store(*library, std::memory_order_release);
  return cudaSuccess;
}

cudaError_t LoadKernel(Kernel* kernel, CUkernel* handle) {
  CUlibrary library = nullptr;
  if (cudaError_t error = LoadBinary(kernel->binary, &library); error != cudaSuccess) return error;
  CUresult result = g_driver.cuLibraryGetKernel(handle, library, kernel->name);
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (result != CUDA_SUCCESS) return FromDriver(result);
  std::lock_guard<std::mutex> lock(*g_mutex);
  (*g_by_handle)[*handle] = kernel;
  g_kernels->Put(*handle, kernel);
  kernel->handle.store(*handle, std::memory_order_release);
  return cudaSuccess;
}

void Forget(FatBinary* binary) {
  std::lock_guard<std::mutex> lock(*g_mutex);
  for (Kernel* kernel : binary->kernels) {
    g_kernels->Put(kernel->symbol, nullptr);
    CUkernel handle = kernel->handle.load();
    if (handle == nullptr) continue;
    g_kernels->Put(handle, nullptr);
    g_by_handle->erase(handle);
  }
  for (Variable* variable : binary->variables) {
    g_variables->Put(variable->symbol, nullptr);
    if (variable->managed != nullptr && binary->library.load() != nullptr)
      g_variables->Put(*variable->managed, nullptr);
  }
}

void AddVariable(void** handle, const void* symbol, const char* name, size_t bytes,
                 void** managed) {
  FatBinary* binary = BinaryOf(handle);
  auto* variable = new Variable{binary, name, symbol, bytes, managed};
  std::lock_guard<std::mutex> lock(*g_mutex);
  binary->variables.push_back(variable);
  g_variables->Put(symbol, variable);
}

}  // namespace

cudaError_t FindKernel(const void* symbol, CUkernel* handle) {
  if (symbol == nullptr) [[unlikely]]
    return cudaErrorInvalidDeviceFunction;
  Kernel* kernel = g_kernels->Find(symbol);
  if (kernel == nullptr) [[unlikely]]
    return cudaErrorInvalidResourceHandle;
  *handle = kernel->handle.load(std::memory_order_acquire);
  if (*handle != nullptr) [[likely]]
    return cudaSuccess;
  return LoadKernel(kernel, handle);
}

void RememberKernel(CUkernel handle) {
  std::lock_guard<std::mutex> lock(*g_mutex);
  if (handle == nullptr || g_by_handle->count(handle) != 0) return;
  auto* kernel = new Kernel;
  kernel->handle.store(handle);
  (*g_by_handle)[handle] = kernel;
  g_kernels->Put(handle, kernel);
}

const void* SymbolOf(CUkernel handle, CUfunction function) {
  if (handle == nullptr && function != nullptr) {
    // Each kernel that was used here has at most one function in this context.
    std::lock_guard<std::mutex> lock(*g_mutex);
    for (const auto& [held, kernel] : *g_by_handle) {
      CUfunction own = nullptr;
      if (held == static_cast<const void*>(function)) return kernel->symbol;
      if (g_driver.cuKernelGetFunction(&own, kernel->handle.load()) == CUDA_SUCCESS &&
          own == function)
        return kernel->symbol != nullptr ? kernel->symbol : held;
    }
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(*g_mutex);
  auto found = g_by_handle->find(handle);
  if (found == g_by_handle->end()) return nullptr;
  return found->second->symbol != nullptr ? found->second->symbol : found->first;
}

cudaError_t FindKernelOfSymbol(const void* symbol, CUkernel* handle) {
  cudaError_t error = FindKernel(symbol, handle);
  return error == cudaErrorInvalidResourceHandle ? cudaErrorInvalidDeviceFunction : error;
}

cudaError_t FindVariable(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  Variable* variable = symbol == nullptr ? nullptr : g_variables->Find(symbol);
  if (variable == nullptr) return cudaErrorInvalidSymbol;
  CUlibrary library = nullptr;
  if (cudaError_t error = LoadBinary(variable->binary, &library); error != cudaSuccess)
    return error;
  CUresult result = variable->managed != nullptr
                        ? g_driver.cuLibraryGetManaged(address, bytes, library, variable->name)
                        : g_driver.cuLibraryGetGlobal(address, bytes, library, variable->name);
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : FromDriver(result);
}

}  // namespace farcall::cudart

using namespace farcall::cudart;

#define CUDART_EXPORT extern "C" __attribute__((visibility("default")))

CUDART_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  OfferLibdevice();  // ahead of XLA's reading its flags, when it is XLA that is being loaded
  auto* binary = new FatBinary;
  binary->wrapper = wrapper;
  return reinterpret_cast<void**>(binary);
}

CUDART_EXPORT void __cudaRegisterFatBinaryEnd(void**) {
}  // loading is lazy: nothing waits for the end

CUDART_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  FatBinary* binary = BinaryOf(handle);
  if (binary == nullptr) return;
  Forget(binary);
  CUlibrary library = binary->library.load();
  if (library != nullptr) g_driver.cuLibraryUnload(library);
  // The records stay: a launch on another thread may be reading them.
}

CUDART_EXPORT void __cudaRegisterFunction(void** handle, const char* symbol, char* device_name,
                                          const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                          int*) {
  FatBinary* binary = BinaryOf(handle);
  auto* kernel = new Kernel;
  kernel->binary = binary;
  kernel->name = name;
  kernel->symbol = symbol;
  std::lock_guard<std::mutex> lock(*g_mutex);
  binary->kernels.push_back(kernel);
  g_kernels->Put(symbol, kernel);
}

CUDART_EXPORT void __cudaRegisterVar(void** handle, char* symbol, char*, const char* name, int,
                                     size_t bytes, int, int) {
  AddVariable(handle, symbol, name, bytes, nullptr);
}

CUDART_EXPORT void __cudaRegisterManagedVar(void** handle, void** pointer, char*, const char* name,
                                            int, size_t bytes, int, int) {
  AddVariable(handle, pointer, name, bytes, pointer);
}

CUDART_EXPORT void __cudaRegisterHostVar(void**, const char* name, char*, size_t) {
  static int said;
  Refuse(name, "is a host variable for kernels: not supported", &said);
}

CUDART_EXPORT void __cudaRegisterUnifiedTable(void**, void*) {
  static int said;
  Refuse("__cudaRegisterUnifiedTable", "is not supported: no unified function pointers", &said);
}

CUDART_EXPORT char __cudaInitModule(void** handle) {
  FatBinary* binary = BinaryOf(handle);
  CUlibrary library = nullptr;
  cudaError_t error = NeedContext();
  if (error == cudaSuccess) error = LoadBinary(binary, &library);
  return Keep(error) == cudaSuccess ? 1 : 0;
}

CUDART_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  if (kernel == nullptr) return Keep(cudaErrorInvalidValue);
  return Enter<Before::kContext>([&] { return FindKernelOfSymbol(symbol, kernel); });
}
