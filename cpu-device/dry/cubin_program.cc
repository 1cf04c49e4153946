// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/dry/cubin_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cpu-device/driver/state/sparse.h"
#include "cpu-device/images/cubin.h"

namespace farcall::cpu_device::dry {
namespace {

using Launched = void (*)(const KernelInfo&);

class IdleKernel final : public Kernel {
 public:
  IdleKernel(KernelInfo info, Launched launched) : info_(std::move(info)), launched_(launched) {}
  const KernelInfo& info() const override { return info_; }
  ExecResult Prepare() override { return {}; }
  ExecResult Run(const LaunchConfig&, const void*, const std::function<void()>&) override {
    if (launched_ != nullptr) launched_(info_);
    return {};
  }

 private:
  const KernelInfo info_;
  const Launched launched_;
};

// Kernels and variables of machine code.
class CubinProgram final : public Program {
 public:
  CubinProgram(uint32_t cc, Launched launched, GlobalMemory& memory)
      : cc_(cc), launched_(launched), memory_(memory) {}
  ~CubinProgram() override {
    for (const GlobalInfo& global : globals_) memory_.Free(global.address);
  }

  ExecResult Load(std::string_view image) {
    const auto* data = reinterpret_cast<const uint8_t*>(image.data());
    images::Cubin cubin;
    std::string error;
    if (!images::ReadCubin({data, image.size()}, &cubin, &error))
      return {ExecStatus::kInvalidImage, error};
    if (!RunsHere(cubin)) {
      return {ExecStatus::kNoBinary,
              "a cubin for sm_" + std::to_string(cubin.arch) + (cubin.arch_specific ? "a" : "") +
                  ", this device is of compute capability " + std::to_string(cc_)};
    }
    for (KernelInfo& info : cubin.kernels) {
      const std::string name = info.name;
      if (kernels_.emplace(name, MakeIdleKernel(std::move(info), launched_)).second)
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
  bool RunsHere(const images::Cubin& cubin) const {
    if (cubin.arch_specific) return cubin.arch == cc_;
    return cubin.arch / 10 == cc_ / 10 && cubin.arch <= cc_;
  }

  ExecResult Place(const images::Cubin& cubin) {
    for (const images::CubinVariable& variable : cubin.variables) {
      const uint64_t bytes = std::max<uint64_t>(variable.size_bytes, 1);
      const uint64_t address = memory_.Allocate(bytes, variable.align_bytes);
      if (address == 0) {
        return {ExecStatus::kOutOfMemory, "variable " + variable.name + ": no device memory for " +
                                              std::to_string(bytes) + " bytes"};
      }
      globals_.push_back({variable.name, address, variable.size_bytes});
      if (variable.init.empty())
        SetZero(address, variable.size_bytes);
      else
        memcpy(reinterpret_cast<void*>(address), variable.init.data(), variable.init.size());
    }
    for (size_t i = 0; i < cubin.variables.size(); ++i) {
      for (const images::CubinFixup& fixup : cubin.variables[i].fixups) {
        const uint64_t value = globals_[fixup.target].address + static_cast<uint64_t>(fixup.addend);
        memcpy(reinterpret_cast<void*>(globals_[i].address + fixup.offset), &value,
               fixup.size_bytes);
      }
    }
    return {};
  }

  const uint32_t cc_;
  const Launched launched_;
  GlobalMemory& memory_;
  std::vector<std::string> names_;
  std::vector<GlobalInfo> globals_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

}  // namespace

std::unique_ptr<Kernel> MakeIdleKernel(KernelInfo info, Launched launched) {
  return std::make_unique<IdleKernel>(std::move(info), launched);
}

ExecResult LoadCubin(std::string_view image, uint32_t cc, Launched launched, GlobalMemory& memory,
                     std::unique_ptr<Program>* out) {
  auto program = std::make_unique<CubinProgram>(cc, launched, memory);
  ExecResult result = program->Load(image);
  if (result.ok()) *out = std::move(program);
  return result;
}

}  // namespace farcall::cpu_device::dry
