// SPDX-License-Identifier: Apache-2.0
// The fuzzing device: one stub per name of the driver's table.
#include "tests/fuzz/serve_device.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace farcall::fuzz {

namespace {

enum Name : size_t {
#define FARCALL_NAME(name) k_##name,
#include "fuzz_names.inc"
#undef FARCALL_NAME
  kNames
};

constexpr std::string_view kText[] = {
#define FARCALL_NAME(name) #name,
#include "fuzz_names.inc"
#undef FARCALL_NAME
};

constexpr size_t kGlobalBytes = 64;
std::array<std::byte, 4096> g_global;  // what stands for a module's variable
std::atomic<uintptr_t> g_next_native{0x1000};

constexpr int kMaxTimes = 4;  // of one answer: what polls must end
struct Answer {
  std::atomic<int> times{0};
  std::atomic<CUresult> result{CUDA_SUCCESS};
};
std::array<Answer, kNames> g_answers;
std::vector<size_t> g_answered;  // names whose answers are to be reset

std::mutex g_host_mutex;
std::vector<std::thread> g_host_threads;
std::atomic<int> g_host_running{0};

// What was destroyed, in this session. A driver given such a handle may do anything.
std::mutex g_destroyed_mutex;
std::unordered_set<const void*> g_destroyed;

constexpr bool Destroys(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "cuCtxDestroy_v2",         "cuStreamDestroy_v2", "cuEventDestroy_v2",  "cuModuleUnload",
      "cuLibraryUnload",         "cuGraphDestroy",     "cuGraphExecDestroy", "cuArrayDestroy",
      "cuMipmappedArrayDestroy", "cuLinkDestroy",      "cuGreenCtxDestroy"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

template <typename T>
void CheckAlive(std::string_view name, T argument) {
  // The types of CUDA's handles are never complete.
  if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (!std::is_void_v<Pointee> && !std::is_function_v<Pointee> &&
                  !requires { sizeof(Pointee); }) {
      std::lock_guard lock(g_destroyed_mutex);
      if (g_destroyed.contains(argument)) {
        std::fprintf(stderr, "%.*s is given a destroyed handle\n", static_cast<int>(name.size()),
                     name.data());
        std::abort();
      }
    }
  }
}

template <typename T, typename... Rest>
void NoteDestroyed(T handle, Rest...) {
  if constexpr (std::is_pointer_v<T>) {
    std::lock_guard lock(g_destroyed_mutex);
    g_destroyed.insert(handle);
  }
}

CUresult TakeAnswer(size_t name) {
  Answer& answer = g_answers[name];
  int times = answer.times.load();
  while (times > 0 && !answer.times.compare_exchange_weak(times, times - 1)) {
  }
  return times > 0 ? answer.result.load() : CUDA_SUCCESS;
}

// Outputs are written as a driver would, so that code behind a success sees plausible values.
template <typename T>
void Write(T* out) {
  if constexpr (std::is_const_v<T> || std::is_void_v<T> || std::is_function_v<T>)
    return;
  else if constexpr (!requires { sizeof(T); })
    return;
  else if (out == nullptr)
    return;
  else if constexpr (std::is_same_v<T, const char*>)
    *out = "name";
  else if constexpr (std::is_same_v<T, void*>)
    return;
  else if constexpr (std::is_pointer_v<T>)
    *out = static_cast<T>(NewNative());
  else if constexpr (std::is_same_v<T, CUdeviceptr>)
    *out = reinterpret_cast<CUdeviceptr>(g_global.data());
  else if constexpr (std::is_same_v<T, size_t>)
    *out = kGlobalBytes;
  else if constexpr (std::is_integral_v<T>)
    *out = T{1};
  else
    *out = T{};
}

template <typename T>
void WriteIfOutput(T argument) {
  if constexpr (std::is_pointer_v<T>) Write(argument);
}

template <size_t kName, typename... Arguments>
void Fill(CUresult (**slot)(Arguments...)) {
  *slot = [](Arguments... arguments) -> CUresult {
    (CheckAlive(kText[kName], arguments), ...);
    CUresult result = TakeAnswer(kName);
    if (result == CUDA_SUCCESS) {
      (WriteIfOutput(arguments), ...);
      if constexpr (Destroys(kText[kName])) NoteDestroyed(arguments...);
    }
    return result;
  };
}

template <size_t kName, auto kFunction, typename... Arguments>
void FillReal(CUresult (**slot)(Arguments...)) {
  *slot = [](Arguments... arguments) -> CUresult {
    (CheckAlive(kText[kName], arguments), ...);
    CUresult result = TakeAnswer(kName);
    return result == CUDA_SUCCESS ? kFunction(arguments...) : result;
  };
}

// Reads and changes the first and the last byte: an address that should not have passed faults, and
// four megabytes cost no more than four bytes. What lies in mirrored memory is seen to have
// changed.
CUresult Touch(CUdeviceptr address, uint64_t bytes) {
  if (bytes != 0) {
    auto* at = reinterpret_cast<volatile char*>(address);
    at[0] = static_cast<char>(at[0] ^ 1);
    at[bytes - 1] = static_cast<char>(at[bytes - 1] ^ 2);
  }
  return CUDA_SUCCESS;
}

template <typename Value, uint64_t kBytes>
CUresult Set(CUdeviceptr at, Value, size_t count, CUstream) {
  return Touch(at, count * kBytes);
}
template <typename Value, uint64_t kBytes>
CUresult SetRows(CUdeviceptr at, size_t pitch, Value, size_t width, size_t rows, CUstream) {
  return rows == 0 ? CUDA_SUCCESS : Touch(at, pitch * (rows - 1) + width * kBytes);
}

CUresult CopyOnDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  Touch(from, bytes);
  return Touch(to, bytes);
}

CUresult CopyRows(const CUDA_MEMCPY2D* copy, CUstream) {
  const auto* from = copy->srcMemoryType == CU_MEMORYTYPE_HOST
                         ? static_cast<const char*>(copy->srcHost)
                         : reinterpret_cast<const char*>(copy->srcDevice);
  auto* to = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? static_cast<char*>(copy->dstHost)
                                                       : reinterpret_cast<char*>(copy->dstDevice);
  for (size_t row = 0; row < copy->Height; ++row)
    std::memmove(to + row * copy->dstPitch, from + row * copy->srcPitch, copy->WidthInBytes);
  return CUDA_SUCCESS;
}

CUresult CopyBox(const CUDA_MEMCPY3D* copy, CUstream) {
  uint64_t source_rows = (copy->Depth - 1) * copy->srcHeight + copy->Height - 1;
  uint64_t rows = (copy->Depth - 1) * copy->dstHeight + copy->Height - 1;
  // Host memory is touched as well; an array has no address here.
  auto end = [](CUmemorytype type, CUdeviceptr device, const void* host) {
    return type == CU_MEMORYTYPE_DEVICE ? device : reinterpret_cast<CUdeviceptr>(host);
  };
  if (copy->srcMemoryType != CU_MEMORYTYPE_ARRAY) {
    Touch(end(copy->srcMemoryType, copy->srcDevice, copy->srcHost),
          source_rows * copy->srcPitch + copy->WidthInBytes);
  }
  return copy->dstMemoryType == CU_MEMORYTYPE_ARRAY
             ? CUDA_SUCCESS
             : Touch(end(copy->dstMemoryType, copy->dstDevice, copy->dstHost),
                     rows * copy->dstPitch + copy->WidthInBytes);
}

// Windows as the fake device makes them: real memory.
void FillMemory(server::DriverApi* api) {
#define FARCALL_REAL(name, function) FillReal<k_##name, function>(&api->name)
  FARCALL_REAL(cuMemAddressReserve, &::cuMemAddressReserve);
  FARCALL_REAL(cuMemMap, &::cuMemMap);
  FARCALL_REAL(cuMemUnmap, &::cuMemUnmap);
  FARCALL_REAL(cuMemcpyHtoDAsync_v2, &::cuMemcpyHtoDAsync_v2);
  FARCALL_REAL(cuMemcpyDtoHAsync_v2, &::cuMemcpyDtoHAsync_v2);
  FARCALL_REAL(cuMemcpyDtoDAsync_v2, &CopyOnDevice);
  FARCALL_REAL(cuMemcpy2DAsync_v2, &CopyRows);
  FARCALL_REAL(cuMemcpy3DAsync_v2, &CopyBox);
  FARCALL_REAL(cuMemsetD8Async, (&Set<unsigned char, 1>));
  FARCALL_REAL(cuMemsetD16Async, (&Set<unsigned short, 2>));
  FARCALL_REAL(cuMemsetD32Async, (&Set<unsigned, 4>));
  FARCALL_REAL(cuMemsetD2D8Async, (&SetRows<unsigned char, 1>));
  FARCALL_REAL(cuMemsetD2D16Async, (&SetRows<unsigned short, 2>));
  FARCALL_REAL(cuMemsetD2D32Async, (&SetRows<unsigned, 4>));
#undef FARCALL_REAL
}

// On a thread of its own, as a driver does.
CUresult LaunchHostFunction(CUstream stream, CUhostFn function, void* data) {
  CheckAlive("cuLaunchHostFunc", stream);
  CUresult result = TakeAnswer(k_cuLaunchHostFunc);
  if (result != CUDA_SUCCESS) return result;
  std::lock_guard lock(g_host_mutex);
  if (g_host_threads.size() >= 8) return CUDA_ERROR_OUT_OF_MEMORY;
  ++g_host_running;
  g_host_threads.emplace_back([function, data] {
    function(data);
    --g_host_running;
  });
  return CUDA_SUCCESS;
}

// What is registered when a worker ends goes with its process: here a session does not own one.
std::mutex g_registered_mutex;
std::map<void*, size_t> g_registered;

// Looking through more would be most of an execution's cost.
constexpr size_t kMaxRegisteredBytes = 256u << 10;

CUresult RegisterHost(void* base, size_t bytes, unsigned) {
  CUresult result =
      bytes > kMaxRegisteredBytes ? CUDA_ERROR_OUT_OF_MEMORY : TakeAnswer(k_cuMemHostRegister_v2);
  if (result == CUDA_SUCCESS) {
    std::lock_guard lock(g_registered_mutex);
    g_registered[base] = bytes;
  }
  return result;
}

CUresult UnregisterHost(void* base) {
  std::lock_guard lock(g_registered_mutex);
  return g_registered.erase(base) == 1 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

// A kernel of three parameters.
CUresult DescribeParameter(size_t index, size_t* offset, size_t* bytes) {
  *offset = index * 8;
  if (bytes != nullptr) *bytes = 8;
  return index < 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

server::DriverApi MakeDevice() {
  server::DriverApi api;
#define FARCALL_NAME(name) Fill<k_##name>(&api.name);
#include "fuzz_names.inc"
#undef FARCALL_NAME
  FillMemory(&api);
  api.cuFuncGetParamInfo = [](CUfunction, size_t index, size_t* offset, size_t* bytes) {
    return DescribeParameter(index, offset, bytes);
  };
  api.cuKernelGetParamInfo = [](CUkernel, size_t index, size_t* offset, size_t* bytes) {
    return DescribeParameter(index, offset, bytes);
  };
  // A capture makes one graph, and nothing yet.
  api.cuStreamGetCaptureInfo_v3 = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                     CUgraph* graph, const CUgraphNode** nodes,
                                     const CUgraphEdgeData** edges, size_t* count) {
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    *id = 1;
    *graph = reinterpret_cast<CUgraph>(0x500);
    *nodes = nullptr;
    *edges = nullptr;
    *count = 0;
    return CUDA_SUCCESS;
  };
  api.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
    *graph = reinterpret_cast<CUgraph>(0x500);
    return CUDA_SUCCESS;
  };
  api.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
    *type = CU_GRAPH_NODE_TYPE_EMPTY;
    return CUDA_SUCCESS;
  };
  // Memory of the driver's own choice would have no bytes behind it.
  api.cuMemAlloc_v2 = [](CUdeviceptr*, size_t) { return CUDA_ERROR_OUT_OF_MEMORY; };
  api.cuLaunchHostFunc = LaunchHostFunction;
  api.cuMemHostRegister_v2 = RegisterHost;
  api.cuMemHostUnregister = UnregisterHost;
  api.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* seen, void* memory, unsigned) {
    *seen = reinterpret_cast<CUdeviceptr>(memory);
    return TakeAnswer(k_cuMemHostGetDevicePointer_v2);
  };
  api.cuMemExportToShareableHandle = [](void* handle, CUmemGenericAllocationHandle,
                                        CUmemAllocationHandleType, unsigned long long) {
    CUresult result = TakeAnswer(k_cuMemExportToShareableHandle);
    if (result == CUDA_SUCCESS) {
      *static_cast<int*>(handle) = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    return result;
  };
  return api;
}

}  // namespace

const server::DriverApi& FuzzDevice() {
  static const server::DriverApi api = MakeDevice();
  return api;
}

void* NewNative() {
  return reinterpret_cast<void*>(g_next_native.fetch_add(16));
}

std::span<const std::string_view> DeviceNames() {
  return kText;
}

void SetAnswer(uint16_t name_hash, int times, CUresult result) {
  static const auto by_hash = [] {
    std::vector<std::pair<uint16_t, size_t>> names;
    for (size_t name = 0; name < kNames; ++name) names.emplace_back(NameHash(kText[name]), name);
    std::sort(names.begin(), names.end());
    return names;
  }();
  auto found = std::lower_bound(by_hash.begin(), by_hash.end(), std::pair{name_hash, size_t{0}});
  if (found == by_hash.end() || found->first != name_hash) return;
  g_answered.push_back(found->second);
  g_answers[found->second].result = result;
  g_answers[found->second].times = std::clamp(times, 1, kMaxTimes);
}

void ResetDevice(void (*open)(void*), void* data) {
  for (size_t name : g_answered) g_answers[name].times = 0;
  g_answered.clear();
  {
    std::lock_guard lock(g_destroyed_mutex);
    g_destroyed.clear();
  }
  while (g_host_running != 0) {
    open(data);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::lock_guard lock(g_host_mutex);
  for (std::thread& thread : g_host_threads) thread.join();
  g_host_threads.clear();
}

void UnmapRegistered() {
  std::lock_guard lock(g_registered_mutex);
  for (auto [base, bytes] : g_registered) munmap(base, bytes);
  g_registered.clear();
}

}  // namespace farcall::fuzz
