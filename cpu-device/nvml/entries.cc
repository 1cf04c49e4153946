// SPDX-License-Identifier: Apache-2.0
// NVML of a software device: names, memory, capability, sizes and clocks as its libcuda.so.1 gives
// them, and a PCIe link, by which frameworks choose how to copy. It has no temperature, no power,
// no fan, no NVLink: NVML_ERROR_NOT_SUPPORTED, by the generated defaults.
#include <nvml.h>
#include <strings.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "cpu-device/nvml/device_driver.h"

#define NVML_ENTRY extern "C" __attribute__((visibility("default"))) nvmlReturn_t

// The generated defaults report themselves; here "not supported" is the answer, not a gap.
extern "C" void FarcallLogUnsupported(const char*) {}

namespace farcall::cpu_nvml {
namespace {

constexpr int kMaxDevices = 64;
char g_handles[kMaxDevices];  // a handle is an address among these
std::atomic<int> g_users{0};

int DeviceCount() {
  int count = 0;
  const DeviceDriver* driver = TheDeviceDriver();
  if (driver == nullptr || driver->DeviceGetCount(&count) != CUDA_SUCCESS) return 0;
  return count < kMaxDevices ? count : kMaxDevices;
}

nvmlReturn_t CheckReady() {
  return g_users.load() == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
}

nvmlReturn_t Check(nvmlDevice_t device, const void* out, int* index) {
  if (g_users.load() == 0) return NVML_ERROR_UNINITIALIZED;
  auto address = reinterpret_cast<uintptr_t>(device),
       first = reinterpret_cast<uintptr_t>(g_handles);
  bool known = address >= first && address - first < static_cast<uintptr_t>(DeviceCount());
  if (!known || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<int>(address - first);
  return NVML_SUCCESS;
}

nvmlReturn_t CopyText(const std::string& text, char* to, unsigned room) {
  if (text.size() + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

constexpr unsigned kLinkGeneration = 4, kLinkWidth = 16;
constexpr unsigned kLinkMegabytesPerSecond = 16'000;  // of a lane

nvmlReturn_t TellNumber(nvmlDevice_t device, unsigned value, unsigned* out) {
  int index = 0;
  const nvmlReturn_t checked = Check(device, out, &index);
  if (checked == NVML_SUCCESS) *out = value;
  return checked;
}

int Attribute(int device, CUdevice_attribute attribute) {
  int value = 0;
  return TheDeviceDriver()->DeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value
                                                                                          : 0;
}

std::string Uuid(int device) {
  CUuuid uuid{};
  TheDeviceDriver()->DeviceGetUuid(&uuid, device);
  std::string text = "GPU-";
  char digits[3];
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

// The driver is of the version of CUDA that it implements.
std::string VersionText() {
  int version = 0;
  if (const DeviceDriver* driver = TheDeviceDriver()) driver->DriverGetVersion(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) + ".0";
}

nvmlReturn_t VersionOut(char* text, unsigned room) {
  if (CheckReady() != NVML_SUCCESS) return NVML_ERROR_UNINITIALIZED;
  return text == nullptr ? NVML_ERROR_INVALID_ARGUMENT : CopyText(VersionText(), text, room);
}

nvmlReturn_t AttributeOut(nvmlDevice_t device, CUdevice_attribute attribute, unsigned* out) {
  int index = 0;
  nvmlReturn_t status = Check(device, out, &index);
  if (status == NVML_SUCCESS) *out = static_cast<unsigned>(Attribute(index, attribute));
  return status;
}

nvmlReturn_t MaxClock(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  int index = 0;
  nvmlReturn_t status = Check(device, mhz, &index);
  if (status != NVML_SUCCESS) return status;
  if (type < NVML_CLOCK_GRAPHICS || type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (type == NVML_CLOCK_VIDEO) return NVML_ERROR_NOT_SUPPORTED;
  CUdevice_attribute khz = type == NVML_CLOCK_MEM ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
                                                  : CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
  *mhz = static_cast<unsigned>(Attribute(index, khz)) / 1000;
  return *mhz == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t Init() {
  if (TheDeviceDriver() == nullptr) return NVML_ERROR_DRIVER_NOT_LOADED;
  g_users.fetch_add(1);
  return NVML_SUCCESS;
}

nvmlReturn_t Memory(nvmlDevice_t device, const void* out, size_t* free_bytes, size_t* total_bytes) {
  int index = 0;
  nvmlReturn_t status = Check(device, out, &index);
  if (status != NVML_SUCCESS) return status;
  bool known = MemoryInfo(*TheDeviceDriver(), index, free_bytes, total_bytes);
  return known ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

}  // namespace
}  // namespace farcall::cpu_nvml

using namespace farcall::cpu_nvml;

NVML_ENTRY nvmlInit_v2() {
  return Init();
}
NVML_ENTRY nvmlInit() {
  return Init();
}
NVML_ENTRY nvmlInitWithFlags(unsigned int) {
  return Init();
}
NVML_ENTRY nvmlShutdown() {
  if (g_users.load() == 0) return NVML_ERROR_UNINITIALIZED;
  g_users.fetch_sub(1);
  return NVML_SUCCESS;
}
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    default:
      return "Unknown Error";
  }
}

NVML_ENTRY nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return VersionOut(version, length);
}
NVML_ENTRY nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return VersionOut(version, length);
}
NVML_ENTRY nvmlSystemGetCudaDriverVersion_v2(int* cudaDriverVersion) {
  if (CheckReady() != NVML_SUCCESS) return NVML_ERROR_UNINITIALIZED;
  if (cudaDriverVersion == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return TheDeviceDriver()->DriverGetVersion(cudaDriverVersion) == CUDA_SUCCESS
             ? NVML_SUCCESS
             : NVML_ERROR_UNKNOWN;
}
NVML_ENTRY nvmlSystemGetCudaDriverVersion(int* cudaDriverVersion) {
  return nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion);
}
NVML_ENTRY nvmlUnitGetCount(unsigned int* unitCount) {
  if (CheckReady() != NVML_SUCCESS) return NVML_ERROR_UNINITIALIZED;
  if (unitCount == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *unitCount = 0;
  return NVML_SUCCESS;
}

NVML_ENTRY nvmlDeviceGetCount_v2(unsigned int* deviceCount) {
  if (CheckReady() != NVML_SUCCESS) return NVML_ERROR_UNINITIALIZED;
  if (deviceCount == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *deviceCount = static_cast<unsigned>(DeviceCount());
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  if (CheckReady() != NVML_SUCCESS) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr || index >= static_cast<unsigned>(DeviceCount()))
    return NVML_ERROR_INVALID_ARGUMENT;
  *device = reinterpret_cast<nvmlDevice_t>(&g_handles[index]);
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (CheckReady() != NVML_SUCCESS) return NVML_ERROR_UNINITIALIZED;
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < DeviceCount(); ++i) {
    if (strcasecmp(Uuid(i).c_str(), uuid) != 0) continue;
    *device = reinterpret_cast<nvmlDevice_t>(&g_handles[i]);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
NVML_ENTRY nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* out) {
  int index = 0;
  nvmlReturn_t status = Check(device, out, &index);
  if (status == NVML_SUCCESS) *out = static_cast<unsigned>(index);
  return status;
}

NVML_ENTRY nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  int index = 0;
  nvmlReturn_t status = Check(device, name, &index);
  if (status != NVML_SUCCESS) return status;
  char text[128] = "";
  TheDeviceDriver()->DeviceGetName(text, sizeof(text), index);
  return CopyText(text, name, length);
}
NVML_ENTRY nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  int index = 0;
  nvmlReturn_t status = Check(device, uuid, &index);
  return status != NVML_SUCCESS ? status : CopyText(Uuid(index), uuid, length);
}
NVML_ENTRY nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  int index = 0;
  nvmlReturn_t status = Check(device, pci, &index);
  if (status != NVML_SUCCESS) return status;
  *pci = {};
  pci->domain = static_cast<unsigned>(Attribute(index, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
  pci->bus = static_cast<unsigned>(Attribute(index, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
  pci->device = static_cast<unsigned>(Attribute(index, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  std::snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
                pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
  std::snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff,
                pci->device & 0xff);
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  int index = 0;
  nvmlReturn_t status = Check(device, major == nullptr ? nullptr : minor, &index);
  if (status != NVML_SUCCESS) return status;
  *major = Attribute(index, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = Attribute(index, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* type) {
  int index = 0;
  nvmlReturn_t status = Check(device, type, &index);
  if (status == NVML_SUCCESS) *type = NVML_BRAND_UNKNOWN;
  return status;
}
NVML_ENTRY nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* arch) {
  int index = 0;
  nvmlReturn_t status = Check(device, arch, &index);
  if (status == NVML_SUCCESS) *arch = NVML_DEVICE_ARCH_UNKNOWN;
  return status;
}
NVML_ENTRY nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int* busWidth) {
  return AttributeOut(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, busWidth);
}
// Its "link" is the machine's memory: fourth generation, 16 lanes, which none of them makes slower.
#define FARCALL_LINK_ENTRY(name, value)                     \
  NVML_ENTRY name(nvmlDevice_t device, unsigned int* out) { \
    return TellNumber(device, value, out);                  \
  }
FARCALL_LINK_ENTRY(nvmlDeviceGetMaxPcieLinkGeneration, kLinkGeneration)
FARCALL_LINK_ENTRY(nvmlDeviceGetGpuMaxPcieLinkGeneration, kLinkGeneration)
FARCALL_LINK_ENTRY(nvmlDeviceGetCurrPcieLinkGeneration, kLinkGeneration)
FARCALL_LINK_ENTRY(nvmlDeviceGetMaxPcieLinkWidth, kLinkWidth)
FARCALL_LINK_ENTRY(nvmlDeviceGetCurrPcieLinkWidth, kLinkWidth)
FARCALL_LINK_ENTRY(nvmlDeviceGetPcieLinkMaxSpeed, NVML_PCIE_LINK_MAX_SPEED_16000MBPS)
FARCALL_LINK_ENTRY(nvmlDeviceGetPcieSpeed, kLinkMegabytesPerSecond)
#undef FARCALL_LINK_ENTRY

NVML_ENTRY nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  int index = 0;
  nvmlReturn_t status = Check(device, mode, &index);
  if (status == NVML_SUCCESS)
    *mode = static_cast<nvmlComputeMode_t>(Attribute(index, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE));
  return status;
}
NVML_ENTRY nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                     unsigned int* clock) {
  return MaxClock(device, type, clock);
}

NVML_ENTRY nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  size_t free_bytes = 0, total_bytes = 0;
  nvmlReturn_t status = Memory(device, memory, &free_bytes, &total_bytes);
  if (status == NVML_SUCCESS) *memory = {total_bytes, free_bytes, total_bytes - free_bytes};
  return status;
}
NVML_ENTRY nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  size_t free_bytes = 0, total_bytes = 0;
  nvmlReturn_t status = Memory(device, memory, &free_bytes, &total_bytes);
  if (status != NVML_SUCCESS) return status;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  *memory = {nvmlMemory_v2, total_bytes, 0, free_bytes, total_bytes - free_bytes};
  return NVML_SUCCESS;
}
NVML_ENTRY nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* infoCount,
                                                   nvmlProcessInfo_t* infos) {
  size_t free_bytes = 0, total_bytes = 0;
  nvmlReturn_t status = Memory(device, infoCount, &free_bytes, &total_bytes);
  if (status != NVML_SUCCESS) return status;
  unsigned room = infos == nullptr ? 0 : *infoCount;
  *infoCount = total_bytes != free_bytes ? 1 : 0;
  if (room < *infoCount) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (*infoCount != 0)
    infos[0] = {static_cast<unsigned>(getpid()), total_bytes - free_bytes, ~0u, ~0u};
  return NVML_SUCCESS;
}
