// SPDX-License-Identifier: Apache-2.0
// The function tables NVIDIA's runtime and libraries fetch with cuGetExportTable, answered from an
// owner's state.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda-abi/integrity.h"

namespace farcall::cuda_abi {

using ContextHandle = void*;
using ModuleHandle = void*;
using FunctionHandle = void*;
using ContextStorageDestructor = void (*)(ContextHandle context, void* key, void* value);

// What the tables ask of the libcuda they stand in. Results are CUresult values.
class ExportTableOwner {
 public:
  virtual ~ExportTableOwner() = default;

  virtual int DriverVersion() = 0;
  virtual std::vector<DeviceIdentity> Devices() = 0;
  // The primary context of a device, without retaining it: it may be inactive.
  virtual int PrimaryContext(int device, ContextHandle* context) = 0;
  virtual ContextHandle CurrentContext() = 0;
  virtual int ModuleFunctions(ModuleHandle module, std::vector<FunctionHandle>* functions) = 0;
  // From a fatbin wrapper or container: cuModuleLoadData's work.
  virtual int LoadModule(const void* image, ModuleHandle* module) = 0;
};

// Call once, before the first FindExportTable. The owner must live for ever: cudart calls back
// after static destructors.
void SetExportTableOwner(ExportTableOwner* owner);

// The table of `uuid`, or nullptr (the caller answers NOT_FOUND). An unknown one is logged once.
//   Thread  any
const void* FindExportTable(const uint8_t (&uuid)[16]);

// Runs the storage destructors of a context that is about to be destroyed or reset, and forgets its
// storage.
void DestroyContextStorage(ContextHandle context);

}  // namespace farcall::cuda_abi
