// SPDX-License-Identifier: Apache-2.0
// The execution half of the dry device: a program is what its image says of it, a launch does
// nothing.
#include "cpu-device/exec/program.h"

#include <map>
#include <mutex>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/dry/cubin_program.h"
#include "cpu-device/dry/ptx_declarations.h"

namespace farcall::cpu_device {
namespace {

// Kernels and variables of PTX text. Bodies are read when a kernel is asked for: they hold its
// shared memory.
class PtxProgram final : public Program {
 public:
  explicit PtxProgram(GlobalMemory& memory) : memory_(memory) {}
  ~PtxProgram() override {
    for (const GlobalInfo& global : globals_) memory_.Free(global.address);
  }

  ExecResult Load(std::string_view text) {
    std::string error;
    if (!declarations_.Read(text, &error)) return {ExecStatus::kInvalidPtx, error};
    names_ = declarations_.KernelNames();
    return declarations_.PlaceGlobals(memory_, &globals_);
  }

  const std::vector<std::string>& KernelNames() const override { return names_; }
  const std::vector<GlobalInfo>& Globals() const override { return globals_; }
  Kernel* FindKernel(std::string_view name) override {
    std::lock_guard lock(mutex_);
    const auto found = kernels_.find(name);
    if (found != kernels_.end()) return found->second.get();
    KernelInfo info;
    std::string trouble;
    if (!declarations_.Describe(name, &info, &trouble)) return nullptr;
    if (!trouble.empty()) {
      Log(LogLevel::kWarn, "kernel %s: %s; its shared memory counts as none", info.name.c_str(),
          trouble.c_str());
    }
    auto kernel = dry::MakeIdleKernel(std::move(info), nullptr);
    return kernels_.emplace(std::string(name), std::move(kernel)).first->second.get();
  }

 private:
  GlobalMemory& memory_;
  dry::PtxDeclarations declarations_;
  std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<GlobalInfo> globals_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

}  // namespace

ExecResult Program::Load(std::string_view ptx, GlobalMemory& memory,
                         std::unique_ptr<Program>* out) {
  auto program = std::make_unique<PtxProgram>(memory);
  ExecResult result = program->Load(ptx);
  if (result.ok()) *out = std::move(program);
  return result;
}

// Nothing runs: there is nothing to set, no heap to keep, no output to write.
void ConfigureExecutor(const ExecutorOptions&) {}
void SetDeviceHeap(uint64_t, uint64_t) {}
void SetReservedWindow(uint64_t, uint64_t) {}
void FlushDeviceOutput() {}

}  // namespace farcall::cpu_device
