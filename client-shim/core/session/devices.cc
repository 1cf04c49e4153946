// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/devices.h"

#include <cuda.h>

#include <cstdlib>

#include "client-shim/core/memory/host_window.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/routing.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/session_face.h"
#include "cuda-abi/visible_devices.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {

namespace {
std::vector<Device>* g_devices = new std::vector<Device>;
bool g_server_mirrors = false;
}  // namespace

void LoadDevices(std::span<Session* const> sessions) {
  g_server_mirrors = true;
  std::vector<cuda_abi::PhysicalDevice> physical;
  std::vector<Device> devices;
  for (Session* session : sessions) {
    const Welcome& welcome = session->welcome();
    g_server_mirrors = g_server_mirrors && HasFeature(welcome, SessionFeature::kMirrors);
    for (const DeviceSnapshot& snapshot : welcome.devices) {
      physical.push_back({cuda_abi::UuidText(snapshot.uuid), snapshot.pci_bus_id});
      devices.push_back({session, static_cast<int>(&snapshot - welcome.devices.data()), &snapshot});
    }
  }
  if (!g_devices->empty()) g_devices = new std::vector<Device>;  // the former ones may be in use
  for (int index : cuda_abi::VisibleDevices(physical, std::getenv("CUDA_DEVICE_ORDER"),
                                            std::getenv("CUDA_VISIBLE_DEVICES")))
    g_devices->push_back(devices[static_cast<size_t>(index)]);
}

int Device::Attribute(int id) const {
  switch (id) {
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
      return 0;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return session->credit().has_window() ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      if (!session->credit().has_window()) return 0;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      if (!g_server_mirrors || !HostAddresses().available()) return 0;
      break;
    default:
      break;
  }
  return id > 0 && static_cast<size_t>(id) < snapshot->attributes.size() ? snapshot->attributes[id]
                                                                         : 0;
}

bool ServerMirrors() {
  return g_server_mirrors;
}

int VisibleDeviceCount() {
  return static_cast<int>(g_devices->size());
}

const Device* FindDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= VisibleDeviceCount()) return nullptr;
  return &(*g_devices)[ordinal];
}

int DeviceOfServer(const Session* session, int server_index) {
  for (int i = 0; i < VisibleDeviceCount(); ++i) {
    const Device* device = FindDevice(i);
    if (device->session == session && device->server_index == server_index) return i;
  }
  return -1;
}

int32_t WireDevice(CUdevice device, CUresult* error) {
  const Device* found = FindDevice(device);
  *error = found == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  if (found == nullptr) return -1;
  NoteServer(found->session);
  return found->server_index;
}

}  // namespace farcall::client
