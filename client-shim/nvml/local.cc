// SPDX-License-Identifier: Apache-2.0
// What the client answers itself: life, texts, handles, and the facts that libcuda.so.1 gives of
// the same devices.
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "client-shim/nvml/ask.h"
#include "client-shim/nvml/library.h"

#define NVML_ENTRY extern "C" __attribute__((visibility("default"))) nvmlReturn_t

namespace farcall::nvml {

namespace {

using client::NvmlDeviceFacts;

nvmlReturn_t Facts(nvmlDevice_t device, const void* out, NvmlDeviceFacts* facts) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  int index = IndexOf(device);
  if (index < 0 || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return Channel().describe(index, facts) ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t CopyText(const char* text, char* to, unsigned room) {
  size_t bytes = std::strlen(text) + 1;
  if (bytes > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text, bytes);
  return NVML_SUCCESS;
}

int DeviceCount() {
  return std::min(Channel().device_count(), kMaxDevices);
}

// The first device that `matches`.
template <typename Matches>
nvmlReturn_t FindDevice(nvmlDevice_t* device, Matches matches) {
  for (int i = 0; i < DeviceCount(); ++i) {
    NvmlDeviceFacts facts;
    if (Channel().describe(i, &facts) && matches(facts)) {
      *device = HandleOf(i);
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t ByUuid(const char* uuid, nvmlDevice_t* device) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return FindDevice(
      device, [uuid](const NvmlDeviceFacts& facts) { return strcasecmp(facts.uuid, uuid) == 0; });
}

nvmlReturn_t ByPciBusId(const char* id, nvmlDevice_t* device) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (id == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (std::sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2) return NVML_ERROR_INVALID_ARGUMENT;
  }
  return FindDevice(device, [=](const NvmlDeviceFacts& facts) {
    return facts.pci_domain == domain && facts.pci_bus == bus && facts.pci_device == slot;
  });
}

// The bus address is libcuda's; the ids are the server's, 0 if it does not tell.
nvmlReturn_t PciInfo(nvmlDevice_t device, const void* out, nvmlPciInfo_t* pci) {
  NvmlDeviceFacts facts;
  nvmlReturn_t status = Facts(device, out, &facts);
  if (status != NVML_SUCCESS) return status;
  *pci = {};
  nvmlPciInfo_t told{};
  Ask ask(NvmlCall::nvmlDeviceGetPciInfo_v3, NvmlClass::kFixed);
  ask.Device(device);
  ask.Out(&told);
  status = ask.Run();
  if (status == NVML_ERROR_GPU_IS_LOST) return status;
  if (status == NVML_SUCCESS) {
    pci->pciDeviceId = told.pciDeviceId;
    pci->pciSubSystemId = told.pciSubSystemId;
  }
  pci->domain = facts.pci_domain;
  pci->bus = facts.pci_bus;
  pci->device = facts.pci_device;
  std::snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
                facts.pci_domain & 0xffff, facts.pci_bus & 0xff, facts.pci_device & 0xff);
  std::snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", facts.pci_domain,
                facts.pci_bus & 0xff, facts.pci_device & 0xff);
  return NVML_SUCCESS;
}

// The record of the first versions: the short bus id stands first and alone.
struct OldPciInfo {
  char bus_id[16];
  unsigned domain, bus, device, device_id;
  unsigned subsystem_id, reserved[4];  // not in the very first
};
constexpr size_t kFirstPciInfoBytes = offsetof(OldPciInfo, subsystem_id);

nvmlReturn_t OldPci(nvmlDevice_t device, void* out, size_t bytes) {
  nvmlPciInfo_t pci;
  nvmlReturn_t status = PciInfo(device, out, &pci);
  if (status != NVML_SUCCESS) return status;
  OldPciInfo old{};
  std::memcpy(old.bus_id, pci.busIdLegacy, sizeof(old.bus_id));
  old.domain = pci.domain;
  old.bus = pci.bus;
  old.device = pci.device;
  old.device_id = pci.pciDeviceId;
  old.subsystem_id = pci.pciSubSystemId;
  std::memcpy(out, &old, bytes);
  return NVML_SUCCESS;
}

nvmlReturn_t CountOut(unsigned* count) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(DeviceCount());
  return NVML_SUCCESS;
}

nvmlReturn_t ByIndex(unsigned index, nvmlDevice_t* device) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (device == nullptr || index >= static_cast<unsigned>(DeviceCount()))
    return NVML_ERROR_INVALID_ARGUMENT;
  *device = HandleOf(static_cast<int>(index));
  return NVML_SUCCESS;
}

nvmlReturn_t ZeroOf(nvmlDevice_t device, unsigned* out) {
  NvmlDeviceFacts facts;
  nvmlReturn_t status = Facts(device, out, &facts);
  if (status == NVML_SUCCESS) *out = 0;
  return status;
}

}  // namespace
}  // namespace farcall::nvml

using namespace farcall::nvml;

NVML_ENTRY nvmlInit_v2() {
  return Initialise();
}
NVML_ENTRY nvmlInit() {
  return Initialise();
}
NVML_ENTRY nvmlInitWithFlags(unsigned int flags) {
  constexpr unsigned kKnown = NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH;
  return (flags & ~kKnown) != 0 ? NVML_ERROR_INVALID_ARGUMENT : Initialise();
}
NVML_ENTRY nvmlShutdown() {
  return Shutdown();
}

NVML_ENTRY nvmlSystemGetCudaDriverVersion(int* cudaDriverVersion) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (cudaDriverVersion == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *cudaDriverVersion = Channel().driver_version();
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlSystemGetCudaDriverVersion_v2(int* cudaDriverVersion) {
  return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

// Of this host's processes, which are the ones that processes are listed of.
NVML_ENTRY nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  char line[1024] = "";
  FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/cmdline").c_str(), "re");
  if (file == nullptr) return NVML_ERROR_NOT_FOUND;
  size_t got = std::fread(line, 1, sizeof(line) - 1, file);
  std::fclose(file);
  line[got] = 0;  // the first word ends with a 0 of its own
  return CopyText(line, name, length);
}

NVML_ENTRY nvmlDeviceGetCount_v2(unsigned int* deviceCount) {
  return CountOut(deviceCount);
}
NVML_ENTRY nvmlDeviceGetCount(unsigned int* deviceCount) {
  return CountOut(deviceCount);
}
NVML_ENTRY nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return ByIndex(index, device);
}
NVML_ENTRY nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return ByIndex(index, device);
}
NVML_ENTRY nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return ByUuid(uuid, device);
}
NVML_ENTRY nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t* uuid, nvmlDevice_t* device) {
  nvmlReturn_t ready = CheckReady();
  if (ready != NVML_SUCCESS) return ready;
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (uuid->version != nvmlUUID_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (uuid->type == NVML_UUID_TYPE_ASCII) {
    std::string text(uuid->value.str, strnlen(uuid->value.str, sizeof(uuid->value.str)));
    return ByUuid(text.c_str(), device);
  }
  if (uuid->type != NVML_UUID_TYPE_BINARY) return NVML_ERROR_INVALID_ARGUMENT;
  std::string text = "GPU-";
  char digits[3];
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(digits, sizeof(digits), "%02x", uuid->value.bytes[i]);
    text += digits;
  }
  return ByUuid(text.c_str(), device);
}
NVML_ENTRY nvmlDeviceGetHandleByPciBusId_v2(const char* pciBusId, nvmlDevice_t* device) {
  return ByPciBusId(pciBusId, device);
}
NVML_ENTRY nvmlDeviceGetHandleByPciBusId(const char* pciBusId, nvmlDevice_t* device) {
  return ByPciBusId(pciBusId, device);
}

NVML_ENTRY nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  nvmlReturn_t status = ZeroOf(device, index);
  if (status == NVML_SUCCESS) *index = static_cast<unsigned>(IndexOf(device));
  return status;
}
NVML_ENTRY nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  farcall::client::NvmlDeviceFacts facts;
  nvmlReturn_t status = Facts(device, name, &facts);
  return status != NVML_SUCCESS ? status : CopyText(facts.name, name, length);
}
NVML_ENTRY nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  farcall::client::NvmlDeviceFacts facts;
  nvmlReturn_t status = Facts(device, uuid, &facts);
  return status != NVML_SUCCESS ? status : CopyText(facts.uuid, uuid, length);
}
NVML_ENTRY nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  farcall::client::NvmlDeviceFacts facts;
  nvmlReturn_t status = Facts(device, major, &facts);
  if (status != NVML_SUCCESS) return status;
  if (minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = facts.major;
  *minor = facts.minor;
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  nvmlPciInfo_t found;
  nvmlReturn_t status = PciInfo(device, pci, &found);
  if (status == NVML_SUCCESS) *pci = found;
  return status;
}
NVML_ENTRY nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return OldPci(device, pci, sizeof(OldPciInfo));
}
NVML_ENTRY nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return OldPci(device, pci, kFirstPciInfoBytes);
}
NVML_ENTRY nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t* pci) {
  nvmlPciInfo_t found;
  nvmlReturn_t status = PciInfo(device, pci, &found);
  if (status != NVML_SUCCESS) return status;
  if (pci->version != nvmlPciInfoExt_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  pci->domain = found.domain;
  pci->bus = found.bus;
  pci->device = found.device;
  pci->pciDeviceId = found.pciDeviceId;
  pci->pciSubSystemId = found.pciSubSystemId;
  pci->baseClass = 3;  // a display controller, as PCI counts
  pci->subClass = 2;   // a 3D one
  std::memcpy(pci->busId, found.busId, sizeof(found.busId));
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* isMigDevice) {
  return ZeroOf(device, isMigDevice);
}
NVML_ENTRY nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return ZeroOf(device, count);
}
NVML_ENTRY nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t*) {
  unsigned zero = 0;
  nvmlReturn_t status = ZeroOf(migDevice, &zero);
  return status == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : status;
}
