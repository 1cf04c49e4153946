// SPDX-License-Identifier: Apache-2.0
// The dry device's reader of machine code on arbitrary bytes: what it returns lies inside them.
#include <cstdint>
#include <cstdlib>

#include "cpu-device/images/cubin.h"

namespace {

using farcall::cpu_device::images::Cubin;

void CheckKernels(const Cubin& cubin) {
  for (const auto& kernel : cubin.kernels) {
    for (const auto& param : kernel.params)
      if (uint64_t{param.offset_bytes} + param.size_bytes > kernel.param_bytes) std::abort();
  }
}

void CheckVariables(const Cubin& cubin, const uint8_t* data, size_t size) {
  for (const auto& variable : cubin.variables) {
    const auto& init = variable.init;
    if (!init.empty() && (init.data() < data || init.data() + init.size() > data + size))
      std::abort();
    if (init.size() > variable.size_bytes) std::abort();
    for (const auto& fixup : variable.fixups)
      if (fixup.target >= cubin.variables.size() || fixup.size_bytes > variable.size_bytes ||
          fixup.offset > variable.size_bytes - fixup.size_bytes)
        std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Cubin cubin;
  std::string error;
  if (!farcall::cpu_device::images::ReadCubin({data, size}, &cubin, &error)) return 0;
  CheckKernels(cubin);
  CheckVariables(cubin, data, size);
  return 0;
}
