// SPDX-License-Identifier: Apache-2.0
// Devices and their primary contexts.
#include "cpu-device/driver/state/device.h"

#include <cstdio>
#include <cstring>
#include <limits>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/memory/array.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/thread.h"

namespace farcall::cpu_device {
namespace {

// The checks of a call about a device.
CUresult Enter(CUdevice ordinal, const void* out, Device** device) {
  if (const CUresult result = CheckInitialized()) return result;
  *device = FindDevice(ordinal);
  if (*device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return out == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool ValidContextFlags(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 &&
         (schedule & (schedule - 1)) == 0;
}

CUresult SetPrimaryFlags(CUdevice ordinal, unsigned flags) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, &flags, &device)) return result;
  if (!ValidContextFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult ReleasePrimary(CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, &device, &device)) return result;
  std::lock_guard lock(device->primary_mutex);
  if (device->primary_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_users == 0) {
    device->primary->Reset();
    device->primary->active = false;
  }
  return CUDA_SUCCESS;
}

CUresult ResetPrimary(CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, &device, &device)) return result;
  std::lock_guard lock(device->primary_mutex);
  device->primary->Reset();
  // Who holds the context goes on with it: it is a fresh one under the same handle, until it is
  // retained again.
  device->primary->active = device->primary_users != 0;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found = nullptr;
  if (const CUresult result = Enter(ordinal, device, &found)) return result;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format format, unsigned channels,
                                            CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, width, &device)) return result;
  Format known;
  if (!FormatOf(format, &known) || (channels != 1 && channels != 2 && channels != 4))
    return CUDA_ERROR_INVALID_VALUE;
  *width = size_t{1} << 28;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult result = CheckInitialized()) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(TheDriver().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, name, &device)) return result;
  if (length <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, static_cast<size_t>(length), "%s", device->profile.name.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, uuid, &device)) return result;
  *uuid = device->uuid;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return cuDeviceGetUuid_v2(uuid, ordinal);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, bytes, &device)) return result;
  *bytes = device->total();
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice ordinal) {
  size_t wide = 0;
  const CUresult result = cuDeviceTotalMem_v2(bytes == nullptr ? nullptr : &wide, ordinal);
  if (result == CUDA_SUCCESS) *bytes = static_cast<unsigned>(std::min<size_t>(wide, UINT32_MAX));
  return result;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, value, &device)) return result;
  return DeviceAttribute(device->profile, device->number, attribute, value)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, major, &device)) return result;
  if (minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = device->profile.cc_major;
  *minor = device->profile.cc_minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, properties, &device)) return result;
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    DeviceAttribute(device->profile, device->number, which, &value);
    return value;
  };
  *properties = {};
  properties->maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties->maxThreadsDim[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  properties->maxThreadsDim[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  properties->maxThreadsDim[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  properties->maxGridSize[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  properties->maxGridSize[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  properties->maxGridSize[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  properties->sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstantMemory = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->SIMDWidth = kWarpSize;
  properties->memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, id, &device)) return result;
  const std::string text = device->PciBusId();
  if (length <= static_cast<int>(text.size())) return CUDA_ERROR_INVALID_VALUE;
  snprintf(id, static_cast<size_t>(length), "%s", text.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  if (const CUresult result = CheckInitialized()) return result;
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  const bool full = sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4;
  const bool with_domain = full || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3;
  if (!with_domain && (domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2))
    return CUDA_ERROR_INVALID_VALUE;
  if (domain != 0 || slot != 0 || bus == 0 || FindDevice(static_cast<int>(bus) - 1) == nullptr)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = static_cast<int>(bus) - 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice ordinal) {
  if (type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, supported, &device)) return result;
  *supported = 0;
  return CUDA_SUCCESS;
}

// All devices live in one address space: any reaches any other's memory.
CUresult cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, can, &device)) return result;
  if (FindDevice(peer) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *can = ordinal != peer;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice ordinal,
                                 CUdevice peer) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, value, &device)) return result;
  if (FindDevice(peer) == nullptr || peer == ordinal) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, context, &device)) return result;
  std::lock_guard lock(device->primary_mutex);
  ++device->primary_users;
  device->primary->active = true;
  *context = device->primary->handle();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return ReleasePrimary(device);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return ReleasePrimary(device);
}
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return ResetPrimary(device);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return ResetPrimary(device);
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return SetPrimaryFlags(device, flags);
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  return SetPrimaryFlags(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int* flags, int* active) {
  Device* device = nullptr;
  if (const CUresult result = Enter(ordinal, flags, &device)) return result;
  if (active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = device->primary->flags;
  *active = device->primary->active;
  return CUDA_SUCCESS;
}

}  // extern "C"
