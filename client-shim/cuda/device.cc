// SPDX-License-Identifier: Apache-2.0
// Device facts, all from the snapshot that came with WELCOME.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "client-shim/core/connection/connect.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "generated/client/calls.h"

namespace farcall::client {

CUresult Call_cuInit(unsigned int Flags) {
  return Flags != 0 ? CUDA_ERROR_INVALID_VALUE : Initialise();
}

CUresult Call_cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Asked before cuInit, so a server that cannot be reached is not yet this call's failure.
  Session* session = ConnectSession() == CUDA_SUCCESS ? CurrentSession() : nullptr;
  uint32_t version = kShimDriverVersion;
  if (session != nullptr)
    for (const Session* each : Sessions())
      version = std::min(version, each->welcome().driver_version);
  *driverVersion = static_cast<int>(version);
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = VisibleDeviceCount();
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetName(char* name, int len, CUdevice dev) {
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(len), "%s", device->snapshot->name.c_str());
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, device->snapshot->uuid.data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device->snapshot->total_bytes;
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  if (pi == nullptr || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pi = device->Attribute(attrib);
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  CUdevprop result{};
  result.maxThreadsPerBlock = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; ++i) {
    result.maxThreadsDim[i] = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    result.maxGridSize[i] = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
  result.sharedMemPerBlock = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  result.totalConstantMemory = device->Attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  result.SIMDWidth = device->Attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  result.memPitch = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  result.regsPerBlock = device->Attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  result.clockRate = device->Attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  result.textureAlign = device->Attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  *prop = result;
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *major = device->Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = device->Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  if (pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::string& id = device->snapshot->pci_bus_id;
  if (len < 0 || static_cast<size_t>(len) <= id.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(pciBusId, id.c_str(), id.size() + 1);
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (std::sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (int i = 0; i < VisibleDeviceCount(); ++i) {
    const Device* device = FindDevice(i);
    if (device->Attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) == static_cast<int>(domain) &&
        device->Attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) == static_cast<int>(bus) &&
        device->Attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) == static_cast<int>(slot)) {
      *dev = i;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

namespace {
uint8_t PeersOf(const Device* from, const Device* to) {
  if (from->session != to->session) return 0;
  size_t index = static_cast<size_t>(to->server_index);
  return index < from->snapshot->peer_access.size() ? from->snapshot->peer_access[index]
                                                    : uint8_t{0};
}
}  // namespace

CUresult Call_cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  const Device *device = FindDevice(dev), *peer = FindDevice(peerDev);
  if (device == nullptr || peer == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *canAccessPeer = device != peer && (PeersOf(device, peer) & kPeerAccess) != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult Call_cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                      CUdevice dstDevice) {
  const Device *from = FindDevice(srcDevice), *to = FindDevice(dstDevice);
  if (from == nullptr || to == nullptr || from == to) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      *value = (PeersOf(from, to) & kPeerAccess) != 0 ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = (PeersOf(from, to) & kPeerAtomics) != 0 ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

namespace {
// No atomic operation is native across the wire.
CUresult NoAtomics(unsigned* capabilities, const CUatomicOperation* operations, unsigned count) {
  if (capabilities == nullptr || operations == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    if (operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX)
      return CUDA_ERROR_INVALID_VALUE;
  std::fill_n(capabilities, count, 0u);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult Call_cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities,
                                                const CUatomicOperation* operations,
                                                unsigned int count, CUdevice dev) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return NoAtomics(capabilities, operations, count);
}

CUresult Call_cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities,
                                               const CUatomicOperation* operations,
                                               unsigned int count, CUdevice srcDevice,
                                               CUdevice dstDevice) {
  if (FindDevice(srcDevice) == nullptr || FindDevice(dstDevice) == nullptr ||
      srcDevice == dstDevice)
    return CUDA_ERROR_INVALID_DEVICE;
  return NoAtomics(capabilities, operations, count);
}

CUresult Call_cuDeviceGetLuid(char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (luid == nullptr || deviceNodeMask == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_SUPPORTED;  // Windows has them
}

}  // namespace farcall::client
