// SPDX-License-Identifier: Apache-2.0
// Finding, loading and describing the device library.
#include "server/device/device_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <filesystem>

#include "cuda-abi/error_names.h"
#include "cuda-abi/skipped_kernels.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

// Relative to our own binary, so that the tree can be moved.
std::string OwnDevicePath(const char* folder) {
  std::array<char, PATH_MAX> self{};
  ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length <= 0) return "";
  return (fs::path(self.data()).parent_path().parent_path() / "lib/farcall/device" / folder /
          "libcuda.so.1")
      .string();
}

// Ours are known by the folder they live in, in any tree.
std::string KindOf(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::canonical(path, error).parent_path();
  bool is_dry = folder.filename() == "dry";
  fs::path device = is_dry ? folder.parent_path() : folder;
  bool is_ours = device.filename() == "device" && device.parent_path().filename() == "farcall";
  return !is_ours ? "cuda" : is_dry ? "dry" : "cpu";
}

uint8_t PeerOf(const DriverApi& api, CUdevice device, CUdevice other) {
  int can = 0, atomics = 0;
  if (api.cuDeviceCanAccessPeer(&can, device, other) != CUDA_SUCCESS || can == 0) return 0;
  if (api.cuDeviceGetP2PAttribute == nullptr ||
      api.cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device,
                                  other) != CUDA_SUCCESS)
    atomics = 0;
  return static_cast<uint8_t>(kPeerAccess | (atomics != 0 ? kPeerAtomics : 0));
}

DeviceSnapshot Describe(const DriverApi& api, CUdevice device, int count) {
  DeviceSnapshot snapshot;
  std::array<char, 256> name{};
  api.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device);
  snapshot.name = name.data();
  CUuuid uuid{};
  if (api.cuDeviceGetUuid_v2 != nullptr && api.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
    std::memcpy(snapshot.uuid.data(), uuid.bytes, snapshot.uuid.size());
  size_t total_bytes = 0;
  api.cuDeviceTotalMem_v2(&total_bytes, device);
  snapshot.total_bytes = total_bytes;
  std::array<char, 64> bus{};
  if (api.cuDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) == CUDA_SUCCESS)
    snapshot.pci_bus_id = bus.data();
  snapshot.attributes.assign(CU_DEVICE_ATTRIBUTE_MAX, 0);
  for (int id = 1; id < CU_DEVICE_ATTRIBUTE_MAX; ++id) {
    int value = 0;
    if (api.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(id), device) ==
        CUDA_SUCCESS)
      snapshot.attributes[static_cast<size_t>(id)] = value;
  }
  snapshot.has_vmm =
      snapshot.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] != 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  size_t granularity = 0;
  if (snapshot.has_vmm && api.cuMemGetAllocationGranularity != nullptr &&
      api.cuMemGetAllocationGranularity(&granularity, &properties,
                                        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS)
    snapshot.granularity_bytes = std::max<uint64_t>(granularity, kChunkGranularityBytes);
  for (int other = 0; other < count; ++other)
    snapshot.peer_access.push_back(other == device ? uint8_t{0} : PeerOf(api, device, other));
  return snapshot;
}

// Needs a context: limits and priorities as they are when one comes to life.
void DescribeContext(const DriverApi& api, CUdevice device, DeviceSnapshot* snapshot) {
  CUcontext context = nullptr;
  if (api.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return;
  api.cuCtxSetCurrent(context);
  for (int limit = 0; limit < CU_LIMIT_MAX; ++limit) {
    size_t value = 0;
    snapshot->limits.push_back(
        api.cuCtxGetLimit(&value, static_cast<CUlimit>(limit)) == CUDA_SUCCESS ? value : 0);
  }
  int least = 0, greatest = 0;
  if (api.cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_SUCCESS) {
    snapshot->least_priority = least;
    snapshot->greatest_priority = greatest;
  }
  api.cuCtxSetCurrent(nullptr);
  if (api.cuDevicePrimaryCtxRelease_v2 != nullptr) api.cuDevicePrimaryCtxRelease_v2(device);
}

}  // namespace

Result<std::vector<DeviceChoice>> DeviceChoices(const std::string& option) {
  DeviceChoice cuda{"cuda", "libcuda.so.1"};
  DeviceChoice cpu{"cpu", OwnDevicePath(""), "", "FARCALL_CPU_PROFILE"};
  DeviceChoice dry{"dry", OwnDevicePath("dry"), "", "FARCALL_DRY_PROFILE"};
  if (option.empty() || option == "auto") return std::vector{cuda, cpu};
  if (option == "cuda") return std::vector{cuda};
  for (DeviceChoice own : {cpu, dry}) {
    if (option == own.kind) return std::vector{own};
    if (option.rfind(own.kind + ":", 0) == 0) {
      own.profile = option.substr(own.kind.size() + 1);
      if (own.profile.empty())
        return Status(Code::kInvalid, "device '" + option + "': the name of a profile is missing");
      return std::vector{own};
    }
  }
  if (option.find('/') != std::string::npos) {
    if (access(option.c_str(), R_OK) != 0)
      return Status(Code::kInvalid, "device '" + option + "': no such library");
    return std::vector{DeviceChoice{KindOf(option), option}};
  }
  return Status(Code::kInvalid,
                "device '" + option +
                    "': choose auto, cuda, cpu, dry (each of the two with :PROFILE) or "
                    "the path of a libcuda.so.1");
}

Status LoadDeviceLibrary(const std::string& path, DriverApi* api) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return {Code::kUnavailable, why == nullptr ? path + ": cannot be loaded" : why};
  }
  return LoadDriverApi(library, api);
}

std::string ErrorWithCode(CUresult error) {
  const char* name = cuda_abi::ErrorName(error);
  return std::string(name == nullptr ? "code" : name) + " (" + std::to_string(error) + ")";
}

Result<DeviceReport> ReportDevices(const DriverApi& api) {
  CUresult result = api.cuInit(0);
  int count = 0;
  if (result == CUDA_SUCCESS) result = api.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) return Status(Code::kUnavailable, "cuInit: " + ErrorWithCode(result));
  if (count == 0) return Status(Code::kUnavailable, "the device library finds no device");
  DeviceReport report;
  int version = 0;
  api.cuDriverGetVersion(&version);
  report.driver_version = static_cast<uint32_t>(version);
  for (int device = 0; device < count; ++device) {
    report.devices.push_back(Describe(api, device, count));
    DescribeContext(api, device, &report.devices.back());
  }
  report.skips_kernels = SkippedKernels(api).has_value();
  return report;
}

std::optional<std::vector<SkippedKernel>> SkippedKernels(const DriverApi& api) {
  CUuuid id;
  static_assert(sizeof(id.bytes) == sizeof(cuda_abi::kSkippedKernelsTable));
  std::memcpy(id.bytes, cuda_abi::kSkippedKernelsTable, sizeof(id.bytes));
  const void* found = nullptr;
  if (api.cuGetExportTable == nullptr || api.cuGetExportTable(&found, &id) != CUDA_SUCCESS ||
      found == nullptr)
    return {};
  const auto* table = static_cast<const cuda_abi::SkippedKernelsTable*>(found);
  if (table->bytes < sizeof(*table) || table->each == nullptr) return {};
  std::vector<SkippedKernel> kernels;
  table->each(
      [](const char* kernel, uint64_t launches, void* user) {
        static_cast<std::vector<SkippedKernel>*>(user)->push_back({kernel, launches});
      },
      &kernels);
  return kernels;
}

}  // namespace farcall::server
