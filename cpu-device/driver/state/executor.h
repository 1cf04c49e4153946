// SPDX-License-Identifier: Apache-2.0
// The driver half's side of exec/program.h: settings, memory for globals and the device heap, and
// results as CUDA's codes.
#pragma once

#include <cstddef>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

class Context;

// Once, before the first program is loaded.
void StartExecutor();
void SetStackLimit(size_t bytes);
// Gives the device heap its memory, at the first launch.
void PrepareDeviceHeap(Context& context);
void FlushOutput();

// Logs what is not kOk and gives CUDA's code for it.
CUresult ResultOf(const ExecResult& result);

// Memory of module-scope variables: the context's, charged to its device.
class ContextGlobals final : public GlobalMemory {
 public:
  explicit ContextGlobals(Context& context) : context_(context) {}
  uint64_t Allocate(uint64_t size_bytes, uint64_t align_bytes) override;
  void Free(uint64_t address) override;

 private:
  Context& context_;
};

}  // namespace farcall::cpu_device
