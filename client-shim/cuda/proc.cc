// SPDX-License-Identifier: Apache-2.0
// Names to entries, private tables, error texts: nothing here leaves the client.
#include <cstdlib>
#include <cstring>

#include "client-shim/core/channel/cuda_data.h"
#include "client-shim/core/channel/library_channel.h"
#include "client-shim/core/nvml_channel.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "client-shim/cuda/entries.h"
#include "client-shim/cuda/state/context.h"
#include "client-shim/cuda/state/module.h"
#include "cuda-abi/error_names.h"
#include "cuda-abi/export_tables.h"
#include "cuda-abi/log.h"
#include "cuda-abi/proc_table.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

class TableOwner final : public cuda_abi::ExportTableOwner {
 public:
  int DriverVersion() override {
    int version = 0;
    Call_cuDriverGetVersion(&version);
    return version;
  }
  std::vector<cuda_abi::DeviceIdentity> Devices() override {
    std::vector<cuda_abi::DeviceIdentity> devices;
    for (int i = 0; i < VisibleDeviceCount(); ++i) {
      const Device* device = FindDevice(i);
      cuda_abi::DeviceIdentity identity;
      identity.uuid = device->snapshot->uuid;
      identity.pci_domain = device->Attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
      identity.pci_bus = device->Attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
      identity.pci_device = device->Attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
      devices.push_back(identity);
    }
    return devices;
  }
  int PrimaryContext(int device, cuda_abi::ContextHandle* context) override {
    Context* primary = client::PrimaryContext(device);
    if (primary == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *context = AsCuda(primary);
    return CUDA_SUCCESS;
  }
  cuda_abi::ContextHandle CurrentContext() override { return AsCuda(client::CurrentContext()); }
  int ModuleFunctions(cuda_abi::ModuleHandle module,
                      std::vector<cuda_abi::FunctionHandle>* functions) override {
    Module* found = FindModule(static_cast<CUmodule>(module));
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    unsigned count = 0;
    CUresult status = RoundTrip_cuModuleGetFunctionCount(&count, static_cast<CUmodule>(module));
    if (status != CUDA_SUCCESS || count == 0) return status;
    std::vector<CUfunction> handles(count);
    status = Call_cuModuleEnumerateFunctions(handles.data(), count, static_cast<CUmodule>(module));
    if (status == CUDA_SUCCESS) functions->assign(handles.begin(), handles.end());
    return status;
  }
  int LoadModule(const void* image, cuda_abi::ModuleHandle* module) override {
    CUmodule loaded = nullptr;
    CUresult status = Call_cuModuleLoadData(&loaded, image);
    *module = loaded;
    return status;
  }
};

void Sink(cuda_abi::LogLevel level, const char* line) {
  static constexpr LogLevel kLevels[] = {LogLevel::kError, LogLevel::kInfo, LogLevel::kInfo,
                                         LogLevel::kDebug};
  Log(kLevels[static_cast<int>(level)], "%s", line);
}

// A CUDA 12 or 13 library asks by table for what no header declares.
void SetUpTables() {
  [[maybe_unused]] static const bool once = [] {
    cuda_abi::SetLogSink(Sink);
    cuda_abi::SetExportTableOwner(new TableOwner);
    return true;
  }();
}

const cuda_abi::ProcTable& Procs() {
  static auto* table = new cuda_abi::ProcTable(EntryRows());
  return *table;
}

}  // namespace

CUresult Call_cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* symbolStatus) {
  if (symbol == nullptr || pfn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cuda_abi::ProcResult found = Procs().Lookup(symbol, cudaVersion, flags);
  if (!found.valid_flags) return CUDA_ERROR_INVALID_VALUE;
  *pfn = found.entry;
  if (symbolStatus != nullptr)
    *symbolStatus = static_cast<CUdriverProcAddressQueryResult>(found.status);
  if (found.entry == nullptr)
    Log(LogLevel::kDebug, "cuGetProcAddress: no %s of CUDA %d", symbol, cudaVersion);
  return CUDA_SUCCESS;  // a null entry and the status say it: PyTorch takes a code for an error
}

// The one of CUDA 11 has a code for it.
CUresult Call_cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  CUresult status = Call_cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr);
  return status == CUDA_SUCCESS && *pfn == nullptr ? CUDA_ERROR_NOT_FOUND : status;
}

CUresult Call_cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint8_t uuid[16];
  std::memcpy(uuid, pExportTableId->bytes, sizeof(uuid));
  if (std::memcmp(uuid, kNvmlChannelId, sizeof(uuid)) == 0) {
    *ppExportTable = TheNvmlChannel();
    return CUDA_SUCCESS;
  }
  if (std::memcmp(uuid, kCudaDataId, sizeof(uuid)) == 0) {
    *ppExportTable = TheCudaDataTable();
    return CUDA_SUCCESS;
  }
  if (std::memcmp(uuid, kLibraryChannelId, sizeof(uuid)) == 0) {
    *ppExportTable = TheLibraryChannel();
    return CUDA_SUCCESS;
  }
  SetUpTables();
  *ppExportTable = cuda_abi::FindExportTable(uuid);
  return *ppExportTable == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult Call_cuGetErrorName(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = cuda_abi::ErrorName(error);
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Call_cuGetErrorString(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = cuda_abi::ErrorText(error);
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Call_cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const char* wanted = std::getenv("CUDA_MODULE_LOADING");
  *mode = wanted != nullptr && std::strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
                                                                 : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult Call_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  ThreadState* self = Self();
  auto before = static_cast<CUstreamCaptureMode>(self->capture_mode);
  self->capture_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
