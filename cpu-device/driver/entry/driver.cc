// SPDX-License-Identifier: Apache-2.0
// Initialisation, version, entry lookup, export tables.
#include <cstdlib>
#include <cstring>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/state/thread.h"
#include "cuda-abi/device_time.h"
#include "cuda-abi/error_names.h"
#include "cuda-abi/export_tables.h"
#include "cuda-abi/log.h"
#include "cuda-abi/proc_table.h"
#include "cuda-abi/skipped_kernels.h"

namespace farcall {

bool IsUnsupported(const void* entry);  // generated, with the entries it knows

namespace cpu_device {
namespace {

class TableOwner final : public cuda_abi::ExportTableOwner {
 public:
  int DriverVersion() override { return kDriverVersion; }

  std::vector<cuda_abi::DeviceIdentity> Devices() override {
    std::vector<cuda_abi::DeviceIdentity> identities;
    for (const auto& device : TheDriver().devices) {
      cuda_abi::DeviceIdentity identity;
      memcpy(identity.uuid.data(), device->uuid.bytes, identity.uuid.size());
      identity.pci_bus = device->number + 1;
      identities.push_back(identity);
    }
    return identities;
  }

  int PrimaryContext(int ordinal, cuda_abi::ContextHandle* context) override {
    Device* device = FindDevice(ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *context = device->primary->handle();
    return CUDA_SUCCESS;
  }

  cuda_abi::ContextHandle CurrentContext() override {
    const auto& stack = ContextStack();
    return stack.empty() || stack.back() == nullptr ? nullptr : stack.back()->handle();
  }

  int ModuleFunctions(cuda_abi::ModuleHandle handle,
                      std::vector<cuda_abi::FunctionHandle>* functions) override {
    const std::shared_ptr<Module> module = TheDriver().modules.Find(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const std::string& name : module->program().KernelNames())
      if (const auto function = module->FindFunction(name))
        functions->push_back(function->handle());
    return CUDA_SUCCESS;
  }

  int LoadModule(const void* image, cuda_abi::ModuleHandle* module) override {
    return cuModuleLoadData(reinterpret_cast<CUmodule*>(module), image);
  }
};

void ForwardLog(cuda_abi::LogLevel level, const char* line) {
  Log(static_cast<LogLevel>(static_cast<int>(level) + 1), "%s", line);
}

std::vector<cuda_abi::ProcRow> SupportedRows() {
  std::vector<cuda_abi::ProcRow> rows = {
#define FARCALL_PROC(name, version, flags, symbol) \
  {name, version, flags, #symbol, reinterpret_cast<void*>(&symbol)},
#include "generated/cuda-abi/proc_table.inc"
#undef FARCALL_PROC
  };
  // An entry that is only the default would never succeed: a probe must see that it is not there.
  for (cuda_abi::ProcRow& row : rows)
    if (IsUnsupported(row.entry)) row.entry = nullptr;
  return rows;
}

const cuda_abi::ProcTable& Table() {
  static const auto* table = new cuda_abi::ProcTable(SupportedRows());
  return *table;
}

void StartAbi() {
  static const bool started = [] {
    cuda_abi::SetLogSink(&ForwardLog);
    cuda_abi::SetExportTableOwner(new TableOwner);
    return true;
  }();
  (void)started;
}

}  // namespace
}  // namespace cpu_device
}  // namespace farcall

using namespace farcall;
using namespace farcall::cpu_device;

extern "C" void FarcallLogUnsupported(const char* name) {
  Log(LogLevel::kWarn, "%s is not supported by this device", name);
}

extern "C" {

CUresult cuInit(unsigned int flags) {
  StartAbi();
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : InitializeDriver();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** entry, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || entry == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cuda_abi::ProcResult result = Table().Lookup(symbol, version, flags);
  if (!result.valid_flags) return CUDA_ERROR_INVALID_VALUE;
  *entry = result.entry;
  if (status != nullptr) *status = static_cast<CUdriverProcAddressQueryResult>(result.status);
  if (result.entry == nullptr && *symbol != '\0')
    Log(LogLevel::kTrace, "cuGetProcAddress: no %s of %d", symbol, version);
  return CUDA_SUCCESS;  // a null entry and the status say that there is none
}

// The one of CUDA 11 has a code for it.
CUresult cuGetProcAddress(const char* symbol, void** entry, int version, cuuint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, entry, version, flags, nullptr);
  return result == CUDA_SUCCESS && *entry == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  StartAbi();
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint8_t uuid[16];
  memcpy(uuid, id->bytes, sizeof(uuid));
  if (memcmp(uuid, cuda_abi::kDeviceTimeTable, sizeof(uuid)) == 0) {
    // Off: whoever shares this device measures it by events, as on one that keeps no count.
    const char* counts = getenv("FARCALL_CPU_DEVICE_TIME");
    bool is_off = counts != nullptr && strcmp(counts, "off") == 0;
    *table = is_off ? nullptr : kDeviceKind.device_time;
    return *table == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  }
  if (memcmp(uuid, cuda_abi::kSkippedKernelsTable, sizeof(uuid)) == 0) {
    const Driver& driver = TheDriver();
    *table = driver.initialized.load() ? kDeviceKind.skipped_kernels(driver.profile) : nullptr;
    return *table == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  }
  *table = cuda_abi::FindExportTable(uuid);
  return *table == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const char* wanted = getenv("CUDA_MODULE_LOADING");
  *mode = wanted != nullptr && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
                                                            : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = cuda_abi::ErrorName(error);
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = cuda_abi::ErrorText(error);
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// No profiler can be attached: starting and stopping one has nothing to do.
CUresult cuProfilerStart(void) {
  return CheckInitialized();
}
CUresult cuProfilerStop(void) {
  return CheckInitialized();
}

}  // extern "C"
