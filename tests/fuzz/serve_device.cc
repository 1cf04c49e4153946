// SPDX-License-Identifier: Apache-2.0
// The fuzzing device: one stub per name of the driver's table.
#include "tests/fuzz/serve_device.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <type_traits>

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

constexpr std::string_view kGenerated[] = {
#define FARCALL_NAME(name) #name,
#include "fuzz_generated.inc"
#undef FARCALL_NAME
};

constexpr size_t kGlobalBytes = 64;
std::array<std::byte, 4096> g_global;  // what stands for a module's variable
std::array<std::atomic<bool>, kNames> g_reached;
std::atomic<uintptr_t> g_next_native{0x1000};

// Outputs are written as a driver would, so that code behind a success sees plausible values.
template <typename T>
void Write(T* out) {
  if constexpr (std::is_const_v<T> || std::is_void_v<T> || std::is_function_v<T>) {
    return;
  } else if constexpr (!requires { sizeof(T); }) {
    return;
  } else if (out == nullptr) {
    return;
  } else if constexpr (std::is_same_v<T, const char*>) {
    *out = "name";
  } else if constexpr (std::is_same_v<T, void*>) {
    return;
  } else if constexpr (std::is_pointer_v<T>) {
    *out = reinterpret_cast<T>(g_next_native.fetch_add(16));
  } else if constexpr (std::is_same_v<T, CUdeviceptr>) {
    *out = reinterpret_cast<CUdeviceptr>(g_global.data());
  } else if constexpr (std::is_same_v<T, size_t>) {
    *out = kGlobalBytes;
  } else if constexpr (std::is_integral_v<T>) {
    *out = T{1};
  } else {
    *out = T{};
  }
}

template <typename T>
void WriteIfOutput(T argument) {
  if constexpr (std::is_pointer_v<T>) {
    Write(argument);
  }
}

template <size_t kName, typename... Arguments>
void Fill(CUresult (**slot)(Arguments...)) {
  *slot = [](Arguments... arguments) -> CUresult {
    g_reached[kName] = true;
    (WriteIfOutput(arguments), ...);
    return CUDA_SUCCESS;
  };
}

// Only the fake device's own: they reserve and touch memory for real.
void FillMemory(server::DriverApi* api) {
  api->cuMemAddressReserve = ::cuMemAddressReserve;
  api->cuMemMap = ::cuMemMap;
  api->cuMemUnmap = ::cuMemUnmap;
  api->cuMemcpyHtoDAsync_v2 = ::cuMemcpyHtoDAsync_v2;
  api->cuMemcpyDtoHAsync_v2 = ::cuMemcpyDtoHAsync_v2;
}

template <size_t kName, typename Function, typename... Arguments>
CUresult Noted(Function function, Arguments... arguments) {
  g_reached[kName] = true;
  return function(arguments...);
}

server::DriverApi MakeDevice() {
  server::DriverApi api;
#define FARCALL_NAME(name) Fill<k_##name>(&api.name);
#include "fuzz_names.inc"
#undef FARCALL_NAME
  FillMemory(&api);
  api.cuMemcpyDtoDAsync_v2 = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return Noted<k_cuMemcpyDtoDAsync_v2>(::cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
  };
  api.cuMemsetD8Async = [](CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    return Noted<k_cuMemsetD8Async>(::cuMemsetD8Async, at, value, bytes, stream);
  };
  // A kernel of three parameters.
  api.cuFuncGetParamInfo = [](CUfunction, size_t index, size_t* offset, size_t* bytes) {
    *offset = index * 8;
    if (bytes != nullptr) {
      *bytes = 8;
    }
    return index < 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  api.cuKernelGetParamInfo = [](CUkernel, size_t index, size_t* offset, size_t* bytes) {
    *offset = index * 8;
    if (bytes != nullptr) {
      *bytes = 8;
    }
    return index < 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  // Memory of the driver's own choice would have no bytes behind it.
  api.cuMemAlloc_v2 = [](CUdeviceptr*, size_t) { return CUDA_ERROR_OUT_OF_MEMORY; };
  // A host function's thread would outlive the session, which in a worker it cannot.
  api.cuLaunchHostFunc = [](CUstream, CUhostFn, void*) { return CUDA_ERROR_NOT_SUPPORTED; };
  return api;
}

}  // namespace

const server::DriverApi& FuzzDevice() {
  static const server::DriverApi api = MakeDevice();
  return api;
}

void ReportReached() {
  size_t reached = 0;
  std::string missing;
  for (std::string_view generated : kGenerated) {
    bool was_called = false;
    for (size_t name = 0; name < kNames; ++name) {
      was_called = was_called || (kText[name] == generated && g_reached[name]);
    }
    reached += was_called ? 1 : 0;
    if (!was_called) {
      missing.append(" ").append(generated);
    }
  }
  std::fprintf(stderr, "generated server functions that reached the device: %zu of %zu; not:%s\n",
               reached, std::size(kGenerated), missing.empty() ? " none" : missing.c_str());
}

}  // namespace farcall::fuzz
