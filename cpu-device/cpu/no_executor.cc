// SPDX-License-Identifier: Apache-2.0
// The execution half's place in a build without it: no module loads.
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

ExecResult Program::Load(std::string_view, GlobalMemory&, std::unique_ptr<Program>*) {
  return {ExecStatus::kUnsupported, "this build has no PTX executor"};
}

void ConfigureExecutor(const ExecutorOptions&) {}
void SetDeviceHeap(uint64_t, uint64_t) {}
void SetReservedWindow(uint64_t, uint64_t) {}
void FlushDeviceOutput() {}

}  // namespace farcall::cpu_device
