// SPDX-License-Identifier: Apache-2.0
// What NVML says of memory and processes: the tenant's, not the device's.
#include "server/nvml/nvml_answer.h"
#include "server/nvml/nvml_service.h"

namespace farcall::server {

// Unspent credit of this session counts as used here; the client, which alone knows how much it is,
// corrects it.
nvmlReturn_t Answer_nvmlDeviceGetMemoryInfo(NvmlAnswer& answer) {
  int device = answer.DeviceIndex();
  if (!answer.whole()) return NVML_ERROR_INVALID_ARGUMENT;
  quota::Usage usage = answer.service().broker().Query(device);
  answer.Out<uint64_t>(usage.quota_bytes);
  answer.Out<uint64_t>(usage.available_bytes());
  return NVML_SUCCESS;
}

nvmlReturn_t Answer_nvmlDeviceGetComputeRunningProcesses_v3(NvmlAnswer& answer) {
  int device = answer.DeviceIndex();
  if (!answer.whole()) return NVML_ERROR_INVALID_ARGUMENT;
  constexpr unsigned kNoInstance = ~0u;
  std::vector<nvmlProcessInfo_t> list;
  for (const ProcessUse& use : answer.service().broker().Processes(device)) {
    if (use.bytes == 0) continue;  // credit from its WELCOME, and no allocation
    if (list.size() == kMaxNvmlItems) break;
    list.push_back({use.pid, use.bytes, kNoInstance, kNoInstance});
  }
  answer.OutItems(list);
  return NVML_SUCCESS;
}

}  // namespace farcall::server
