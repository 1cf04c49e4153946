// SPDX-License-Identifier: Apache-2.0
// Memory and processes, in all their versions.
#include "client-shim/nvml/tenant.h"

#include <nvml.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "client-shim/nvml/ask.h"
#include "client-shim/nvml/library.h"
#include "proto/codec.h"

#define NVML_ENTRY extern "C" __attribute__((visibility("default"))) nvmlReturn_t

namespace farcall::nvml {

namespace {

constexpr size_t kRun = 8;  // a run's length stands before it

void CorrectFree(uint64_t unspent, std::vector<std::byte>* outputs) {
  uint64_t quota = 0, free = 0;
  if (outputs->size() < 4 * kRun) return;
  std::memcpy(&quota, outputs->data() + kRun, sizeof(quota));
  std::memcpy(&free, outputs->data() + 3 * kRun, sizeof(free));
  free = std::min(quota, free + unspent);
  std::memcpy(outputs->data() + 3 * kRun, &free, sizeof(free));
}

void CorrectProcess(uint64_t unspent, std::vector<std::byte>* outputs) {
  auto self = static_cast<unsigned>(getpid());
  for (size_t at = kRun; at + sizeof(nvmlProcessInfo_t) <= outputs->size();
       at += sizeof(nvmlProcessInfo_t)) {
    nvmlProcessInfo_t process;
    std::memcpy(&process, outputs->data() + at, sizeof(process));
    if (process.pid != self) continue;
    process.usedGpuMemory -= std::min<unsigned long long>(process.usedGpuMemory, unspent);
    std::memcpy(outputs->data() + at, &process, sizeof(process));
  }
}

nvmlReturn_t Memory(nvmlDevice_t device, unsigned long long* total, unsigned long long* free) {
  Ask ask(NvmlCall::nvmlDeviceGetMemoryInfo, NvmlClass::kTenant);
  ask.Device(device);
  ask.Out(total);
  ask.Out(free);
  return ask.Run();
}

}  // namespace

void CorrectOwn(NvmlCall call, int device, std::vector<std::byte>* outputs) {
  uint64_t unspent = device < 0 ? 0 : Channel().unspent_bytes(device);
  if (call == NvmlCall::nvmlDeviceGetMemoryInfo) CorrectFree(unspent, outputs);
  if (call == NvmlCall::nvmlDeviceGetComputeRunningProcesses_v3) CorrectProcess(unspent, outputs);
}

namespace {

nvmlReturn_t Processes(nvmlDevice_t device, std::vector<nvmlProcessInfo_t>* list) {
  list->resize(16);
  while (true) {
    auto count = static_cast<unsigned>(list->size());
    Ask ask(NvmlCall::nvmlDeviceGetComputeRunningProcesses_v3, NvmlClass::kTenant);
    ask.Device(device);
    ask.Items(&count, list->data());
    nvmlReturn_t status = ask.Run();
    list->resize(count);
    // Credit that nothing lies in, from WELCOME on, makes no process of this one.
    std::erase_if(*list, [](const nvmlProcessInfo_t& one) { return one.usedGpuMemory == 0; });
    if (status != NVML_ERROR_INSUFFICIENT_SIZE) return status;
  }
}

// The older records are the beginning of the newest: {pid, memory}, then the instances.
template <typename Info>
nvmlReturn_t CopyProcesses(nvmlDevice_t device, unsigned* count, Info* infos) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (count == nullptr || (infos == nullptr && *count != 0)) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<nvmlProcessInfo_t> list;
  nvmlReturn_t status = Processes(device, &list);
  if (status != NVML_SUCCESS) return status;
  unsigned room = *count;
  *count = static_cast<unsigned>(list.size());
  if (room < list.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (infos == nullptr) return NVML_SUCCESS;  // and there are none
  for (size_t i = 0; i < list.size(); ++i) std::memcpy(&infos[i], &list[i], sizeof(Info));
  return NVML_SUCCESS;
}
static_assert(sizeof(nvmlProcessInfo_v1_t) == 16 && sizeof(nvmlProcessInfo_v2_t) == 24 &&
              sizeof(nvmlProcessInfo_t) == 24);

nvmlReturn_t NoProcesses(nvmlDevice_t device, unsigned* count) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (IndexOf(device) < 0 || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace farcall::nvml

using namespace farcall::nvml;

NVML_ENTRY nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  unsigned long long total = 0, free = 0;
  nvmlReturn_t status = Memory(device, &total, &free);
  if (status != NVML_SUCCESS) return status;
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *memory = {total, free, total - free};
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  unsigned long long total = 0, free = 0;
  nvmlReturn_t status = Memory(device, &total, &free);
  if (status != NVML_SUCCESS) return status;
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  memory->total = total;
  memory->reserved = 0;  // what the driver keeps for itself is no part of a quota
  memory->free = free;
  memory->used = total - free;
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                   nvmlProcessInfo_t* infos) {
  return CopyProcesses(device, infoCount, infos);
}
NVML_ENTRY nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* infoCount,
                                                   nvmlProcessInfo_v2_t* infos) {
  return CopyProcesses(device, infoCount, infos);
}
NVML_ENTRY nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* infoCount,
                                                nvmlProcessInfo_v1_t* infos) {
  return CopyProcesses(device, infoCount, infos);
}

NVML_ENTRY nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                    nvmlProcessInfo_t*) {
  return NoProcesses(device, infoCount);
}
NVML_ENTRY nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* infoCount,
                                                    nvmlProcessInfo_v2_t*) {
  return NoProcesses(device, infoCount);
}
NVML_ENTRY nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* infoCount,
                                                 nvmlProcessInfo_v1_t*) {
  return NoProcesses(device, infoCount);
}
NVML_ENTRY nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                      nvmlProcessInfo_t*) {
  return NoProcesses(device, infoCount);
}
NVML_ENTRY nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* infoCount,
                                                      nvmlProcessInfo_v2_t*) {
  return NoProcesses(device, infoCount);
}
NVML_ENTRY nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* infoCount,
                                                   nvmlProcessInfo_v1_t*) {
  return NoProcesses(device, infoCount);
}
