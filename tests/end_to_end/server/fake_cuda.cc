// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for the server's tests: host memory plays device memory, everything completes at
// once. The limit of the stack tells how many events were recorded. Its one kernel, "fill", writes
// a value `count` times. A module whose image says "crash" ends the process when it is loaded.
#include <cuda.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

#define API extern "C" __attribute__((visibility("default"))) CUresult

namespace {

constexpr size_t kTotalBytes = size_t{1} << 30;
std::atomic<size_t> g_physical_bytes{0};
std::atomic<size_t> g_recordings{0};
std::atomic<uintptr_t> g_next{0x1000};
std::mutex g_mutex;
std::unordered_map<CUmemGenericAllocationHandle, size_t> g_handles;

template <typename T>
T NewHandle() {
  return reinterpret_cast<T>(g_next.fetch_add(16));
}

}  // namespace

API cuInit(unsigned) {
  return CUDA_SUCCESS;
}
API cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
API cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
API cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::snprintf(name, static_cast<size_t>(bytes), "fake");
  return CUDA_SUCCESS;
}
API cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = kTotalBytes;
  return CUDA_SUCCESS;
}
API cuDeviceGetPCIBusId(char* text, int bytes, CUdevice) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:00:00.0");
  return CUDA_SUCCESS;
}
API cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = 0;
  return CUDA_SUCCESS;
}
API cuDeviceGetAttribute(int* value, CUdevice_attribute id, CUdevice) {
  *value = id == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1 : 0;
  return CUDA_SUCCESS;
}
API cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                  CUmemAllocationGranularity_flags) {
  *bytes = 2u << 20;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(0x100);
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxReset_v2(CUdevice) {
  return CUDA_SUCCESS;
}
API cuCtxSetCurrent(CUcontext) {
  return CUDA_SUCCESS;
}
API cuCtxSynchronize() {
  return CUDA_SUCCESS;
}
API cuCtxGetLimit(size_t* value, CUlimit limit) {
  *value = limit == CU_LIMIT_STACK_SIZE ? g_recordings.load() : 1024;
  return CUDA_SUCCESS;
}
API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
API cuCtxPopCurrent_v2(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}
API cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice) {
  *context = NewHandle<CUcontext>();
  return CUDA_SUCCESS;
}
API cuCtxDestroy_v2(CUcontext) {
  return CUDA_SUCCESS;
}

API cuMemAddressReserve(CUdeviceptr* base, size_t bytes, size_t, CUdeviceptr hint,
                        unsigned long long) {
  void* got = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *base = reinterpret_cast<CUdeviceptr>(got);
  return CUDA_SUCCESS;
}
API cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  munmap(reinterpret_cast<void*>(base), bytes);
  return CUDA_SUCCESS;
}
API cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp*) {
  *handle = g_next.fetch_add(16);
  return CUDA_SUCCESS;
}
API cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice) {
  return CUDA_SUCCESS;
}
API cuMulticastBindMem(CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t,
                       size_t, unsigned long long) {
  return CUDA_SUCCESS;
}
API cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t) {
  return CUDA_SUCCESS;
}
API cuMemHostRegister_v2(void*, size_t, unsigned) {
  return CUDA_SUCCESS;
}
API cuMemHostUnregister(void*) {
  return CUDA_SUCCESS;
}
API cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}
API cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                unsigned long long) {
  if (g_physical_bytes.fetch_add(bytes) + bytes > kTotalBytes) {
    g_physical_bytes -= bytes;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = g_next.fetch_add(16);
  std::lock_guard lock(g_mutex);
  g_handles[*handle] = bytes;
  return CUDA_SUCCESS;
}
API cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(g_mutex);
  g_physical_bytes -= g_handles[handle];
  g_handles.erase(handle);
  return CUDA_SUCCESS;
}
API cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  void* got = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return got == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
API cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
API cuMemUnmap(CUdeviceptr at, size_t bytes) {
  mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
API cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream) {
  std::memset(reinterpret_cast<void*>(at), value, bytes);
  return CUDA_SUCCESS;
}

API cuStreamCreate(CUstream* stream, unsigned) {
  *stream = NewHandle<CUstream>();
  return CUDA_SUCCESS;
}
API cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  *stream = NewHandle<CUstream>();
  return CUDA_SUCCESS;
}
API cuStreamDestroy_v2(CUstream) {
  return CUDA_SUCCESS;
}
API cuStreamQuery(CUstream) {
  return CUDA_SUCCESS;
}
API cuEventCreate(CUevent* event, unsigned) {
  *event = NewHandle<CUevent>();
  return CUDA_SUCCESS;
}
API cuEventRecord(CUevent, CUstream) {
  ++g_recordings;
  return CUDA_SUCCESS;
}
API cuEventQuery(CUevent) {
  return CUDA_SUCCESS;
}
API cuEventDestroy_v2(CUevent) {
  return CUDA_SUCCESS;
}
API cuLaunchHostFunc(CUstream, CUhostFn function, void* data) {
  std::thread([function, data] { function(data); }).detach();
  return CUDA_SUCCESS;
}

API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  if (std::strstr(static_cast<const char*>(image), "crash") != nullptr) std::abort();
  if (std::strstr(static_cast<const char*>(image), "broken") != nullptr)
    return CUDA_ERROR_INVALID_PTX;
  *module = NewHandle<CUmodule>();
  return CUDA_SUCCESS;
}
API cuModuleUnload(CUmodule) {
  return CUDA_SUCCESS;
}
API cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  if (std::strcmp(name, "fill") != 0) return CUDA_ERROR_NOT_FOUND;
  *function = NewHandle<CUfunction>();
  return CUDA_SUCCESS;
}
API cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  *value = 7;
  return CUDA_SUCCESS;
}
API cuFuncGetParamInfo(CUfunction, size_t index, size_t* offset, size_t* bytes) {
  static constexpr size_t kOffsets[] = {0, 8, 12}, kBytes[] = {8, 4, 4};
  if (index >= 3) return CUDA_ERROR_INVALID_VALUE;
  *offset = kOffsets[index];
  *bytes = kBytes[index];
  return CUDA_SUCCESS;
}
API cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned block, unsigned, unsigned,
                   unsigned, CUstream, void**, void** extra) {
  if (block > 1024) return CUDA_ERROR_INVALID_VALUE;
  struct {
    uint64_t at;
    uint32_t count, value;
  } parameters;
  std::memcpy(&parameters, extra[1], sizeof(parameters));
  for (uint32_t i = 0; i < parameters.count; ++i)
    reinterpret_cast<uint32_t*>(parameters.at)[i] = parameters.value;
  return CUDA_SUCCESS;
}
