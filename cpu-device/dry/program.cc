// SPDX-License-Identifier: Apache-2.0
// The execution half of the dry device: a program is what its image says of it, a launch does
// nothing.
#include "cpu-device/exec/program.h"

#include <cstring>
#include <map>
#include <mutex>

#include "cpu-device/driver/device.h"
#include "cpu-device/driver/log.h"
#include "cpu-device/driver/sparse.h"
#include "cpu-device/dry/cubin.h"
#include "cpu-device/dry/ptx_declarations.h"

namespace farcall::cpu_device {
namespace {

class DryKernel final : public Kernel {
 public:
  explicit DryKernel(KernelInfo info) : info_(std::move(info)) {}
  const KernelInfo& info() const override { return info_; }
  ExecResult Prepare() override { return {}; }
  ExecResult Run(const LaunchConfig&, const void*) override { return {}; }

 private:
  const KernelInfo info_;
};

// Kernels and variables of machine code.
class CubinProgram final : public Program {
 public:
  explicit CubinProgram(GlobalMemory& memory) : memory_(memory) {}
  ~CubinProgram() override {
    for (const GlobalInfo& global : globals_) memory_.Free(global.address);
  }

  ExecResult Load(std::string_view image) {
    const auto* data = reinterpret_cast<const uint8_t*>(image.data());
    dry::Cubin cubin;
    std::string error;
    if (!dry::ReadCubin({data, image.size()}, &cubin, &error))
      return {ExecStatus::kInvalidImage, error};
    if (!RunsHere(cubin)) {
      return {ExecStatus::kNoBinary, "a cubin for sm_" + std::to_string(cubin.arch) +
                                         (cubin.arch_specific ? "a" : "") +
                                         ", this device is of compute capability " +
                                         std::to_string(TheDriver().profile.cc())};
    }
    for (KernelInfo& info : cubin.kernels) {
      const std::string name = info.name;
      if (kernels_.emplace(name, std::make_unique<DryKernel>(std::move(info))).second)
        names_.push_back(name);
    }
    return Place(cubin);
  }

  const std::vector<std::string>& KernelNames() const override { return names_; }
  const std::vector<GlobalInfo>& Globals() const override { return globals_; }
  Kernel* FindKernel(std::string_view name) override {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : found->second.get();
  }

 private:
  // Machine code runs on its own major version, at its minor or a later one.
  static bool RunsHere(const dry::Cubin& cubin) {
    const auto cc = static_cast<uint32_t>(TheDriver().profile.cc());
    if (cubin.arch_specific) return cubin.arch == cc;
    return cubin.arch / 10 == cc / 10 && cubin.arch <= cc;
  }

  ExecResult Place(const dry::Cubin& cubin) {
    for (const dry::CubinVariable& variable : cubin.variables) {
      const uint64_t bytes = std::max<uint64_t>(variable.size_bytes, 1);
      const uint64_t address = memory_.Allocate(bytes, variable.align_bytes);
      if (address == 0) {
        return {ExecStatus::kOutOfMemory, "variable " + variable.name + ": no device memory for " +
                                              std::to_string(bytes) + " bytes"};
      }
      globals_.push_back({variable.name, address, variable.size_bytes});
      if (variable.init.empty()) {
        SetZero(address, variable.size_bytes);
      } else {
        memcpy(reinterpret_cast<void*>(address), variable.init.data(), variable.init.size());
      }
    }
    for (size_t i = 0; i < cubin.variables.size(); ++i) {
      for (const dry::CubinFixup& fixup : cubin.variables[i].fixups) {
        const uint64_t value = globals_[fixup.target].address + static_cast<uint64_t>(fixup.addend);
        memcpy(reinterpret_cast<void*>(globals_[i].address + fixup.offset), &value,
               fixup.size_bytes);
      }
    }
    return {};
  }

  GlobalMemory& memory_;
  std::vector<std::string> names_;
  std::vector<GlobalInfo> globals_;
  std::map<std::string, std::unique_ptr<DryKernel>, std::less<>> kernels_;
};

// The same of PTX text. Bodies are read when a kernel is asked for: they hold its shared memory.
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
    auto kernel = std::make_unique<DryKernel>(std::move(info));
    return kernels_.emplace(std::string(name), std::move(kernel)).first->second.get();
  }

 private:
  GlobalMemory& memory_;
  dry::PtxDeclarations declarations_;
  std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<GlobalInfo> globals_;
  std::map<std::string, std::unique_ptr<DryKernel>, std::less<>> kernels_;
};

template <typename Kind>
ExecResult LoadAs(std::string_view image, GlobalMemory& memory, std::unique_ptr<Program>* out) {
  auto program = std::make_unique<Kind>(memory);
  ExecResult result = program->Load(image);
  if (result.ok()) *out = std::move(program);
  return result;
}

}  // namespace

ExecResult Program::Load(std::string_view image, GlobalMemory& memory,
                         std::unique_ptr<Program>* out) {
  const auto* data = reinterpret_cast<const uint8_t*>(image.data());
  return dry::IsElf({data, image.size()}) ? LoadAs<CubinProgram>(image, memory, out)
                                          : LoadAs<PtxProgram>(image, memory, out);
}

// Nothing runs: there is nothing to set, no heap to keep, no output to write.
void ConfigureExecutor(const ExecutorOptions&) {}
void SetDeviceHeap(uint64_t, uint64_t) {}
void SetReservedWindow(uint64_t, uint64_t) {}
void FlushDeviceOutput() {}

}  // namespace farcall::cpu_device
