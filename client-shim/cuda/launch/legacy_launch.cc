// SPDX-License-Identifier: Apache-2.0
// Launches of old: block, parameters and shared memory are set on the function, call by call.
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr size_t kMaxParameterBytes = 32768;  // no architecture takes more

struct Prepared {
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<std::byte> parameters;  // grows to what was set
  size_t parameter_bytes = 0;         // cuParamSetSize
};

struct Preparations {
  std::mutex mutex;
  std::map<uint64_t, Prepared> by_function;  // by handle: generations tell one from its successor
};
Preparations* g_preparations = new Preparations;

// Runs `change` on what is set for the function so far.
template <typename Change>
CUresult Prepare(CUfunction function, Change change) {
  auto handle = reinterpret_cast<uint64_t>(function);
  if (FindFunction(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(g_preparations->mutex);
  return change(g_preparations->by_function[handle]);
}

CUresult SetParameter(CUfunction function, int offset, const void* value, size_t bytes) {
  if (offset < 0 || value == nullptr || static_cast<size_t>(offset) > kMaxParameterBytes ||
      bytes > kMaxParameterBytes - static_cast<size_t>(offset))
    return CUDA_ERROR_INVALID_VALUE;
  return Prepare(function, [&](Prepared& prepared) {
    size_t end = static_cast<size_t>(offset) + bytes;
    if (prepared.parameters.size() < end) prepared.parameters.resize(end);
    if (bytes != 0) std::memcpy(prepared.parameters.data() + offset, value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult LaunchPrepared(CUfunction function, int width, int height, CUstream stream) {
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  Prepared now;
  CUresult found = Prepare(function, [&](Prepared& prepared) {
    now = prepared;
    return CUDA_SUCCESS;
  });
  if (found != CUDA_SUCCESS) return found;
  now.parameters.resize(now.parameter_bytes);
  size_t bytes = now.parameter_bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, now.parameters.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return Call_cuLaunchKernel(function, static_cast<unsigned>(width), static_cast<unsigned>(height),
                             1, now.block[0], now.block[1], now.block[2], now.shared_bytes, stream,
                             nullptr, extra);
}

}  // namespace

CUresult Call_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  return Prepare(hfunc, [&](Prepared& prepared) {
    prepared.block[0] = static_cast<unsigned>(x);
    prepared.block[1] = static_cast<unsigned>(y);
    prepared.block[2] = static_cast<unsigned>(z);
    return CUDA_SUCCESS;
  });
}

// What no launch on the device could have is refused here, as for the attribute that raises a
// function's limit; the limit itself may still be raised before the launch, which checks it.
CUresult Call_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  const Function* function = FindFunction(reinterpret_cast<uint64_t>(hfunc));
  const Context* context = CurrentContext();
  if (function != nullptr && context != nullptr) {
    int64_t most = FindDevice(context->device)
                       ->Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    most -= function->info->Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    if (bytes > most) return CUDA_ERROR_INVALID_VALUE;
  }
  return Prepare(hfunc, [&](Prepared& prepared) {
    prepared.shared_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult Call_cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  if (numbytes > kMaxParameterBytes) return CUDA_ERROR_INVALID_VALUE;
  return Prepare(hfunc, [&](Prepared& prepared) {
    prepared.parameter_bytes = numbytes;
    return CUDA_SUCCESS;
  });
}

CUresult Call_cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return SetParameter(hfunc, offset, &value, sizeof(value));
}

CUresult Call_cuParamSetf(CUfunction hfunc, int offset, float value) {
  return SetParameter(hfunc, offset, &value, sizeof(value));
}

CUresult Call_cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
  return SetParameter(hfunc, offset, ptr, numbytes);
}

CUresult Call_cuLaunch(CUfunction f) {
  return LaunchPrepared(f, 1, 1, nullptr);
}

CUresult Call_cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return LaunchPrepared(f, grid_width, grid_height, nullptr);
}

CUresult Call_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  return LaunchPrepared(f, grid_width, grid_height, hStream);
}

}  // namespace farcall::client
