// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/devices.h"

#include <cuda.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "client-shim/core/credit.h"
#include "client-shim/core/host_window.h"
#include "client-shim/core/session_face.h"

namespace farcall::client {

namespace {
std::vector<Device>* g_devices = new std::vector<Device>;
}

std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  std::string text = "GPU-";
  char byte[3];
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(byte, sizeof(byte), "%02x", uuid[i]);
    text += byte;
  }
  return text;
}

std::vector<int> SelectDevices(const char* text, const std::vector<std::string>& uuids) {
  std::vector<int> selected;
  int count = static_cast<int>(uuids.size());
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) selected.push_back(i);
    return selected;
  }
  std::string list = text;
  for (size_t at = 0; at <= list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string entry = list.substr(at, comma - at);
    at = comma + 1;
    entry.erase(0, std::min(entry.find_first_not_of(" \t"), entry.size()));
    int index = -1;
    char* end = nullptr;
    long number = std::strtol(entry.c_str(), &end, 10);
    if (end != entry.c_str()) {
      index = number >= 0 && number < count ? static_cast<int>(number) : -1;
    } else if (entry.size() > 4 && strncasecmp(entry.c_str(), "GPU-", 4) == 0) {
      for (int i = 0; i < count; ++i) {
        if (strncasecmp(uuids[i].c_str(), entry.c_str(), entry.size()) != 0) continue;
        if (index >= 0) return selected;  // an ambiguous prefix names no device
        index = i;
      }
    }
    if (index < 0) return selected;
    if (std::find(selected.begin(), selected.end(), index) != selected.end()) return {};
    selected.push_back(index);
  }
  return selected;
}

void LoadDevices(const Welcome& welcome) {
  std::vector<std::string> uuids;
  for (const DeviceSnapshot& snapshot : welcome.devices) uuids.push_back(UuidText(snapshot.uuid));
  if (!g_devices->empty()) g_devices = new std::vector<Device>;  // the former ones may be in use
  for (int index : SelectDevices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids)) {
    g_devices->push_back({index, &welcome.devices[index]});
  }
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
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
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
      return DeviceCredit().has_window() ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      if (!DeviceCredit().has_window()) return 0;
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      if (!HostAddresses().available()) return 0;
      break;
    default:
      break;
  }
  return id > 0 && static_cast<size_t>(id) < snapshot->attributes.size() ? snapshot->attributes[id]
                                                                         : 0;
}

int VisibleDeviceCount() {
  return static_cast<int>(g_devices->size());
}

const Device* FindDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= VisibleDeviceCount()) return nullptr;
  return &(*g_devices)[ordinal];
}

int DeviceOfServer(int server_index) {
  for (int i = 0; i < VisibleDeviceCount(); ++i) {
    if (FindDevice(i)->server_index == server_index) return i;
  }
  return -1;
}

int32_t WireDevice(CUdevice device, CUresult* error) {
  const Device* found = FindDevice(device);
  *error = found == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  return found == nullptr ? -1 : found->server_index;
}

}  // namespace farcall::client
