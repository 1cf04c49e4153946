// SPDX-License-Identifier: Apache-2.0
// The PTX parser on arbitrary text, bodies included.
#include <cstdint>
#include <string_view>

#include "cpu-device/ptx/module.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farcall::cpu_device::ptx::Module module;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!farcall::cpu_device::ptx::Parse(text, &module).ok()) return 0;
  for (auto& function : module.functions) (void)module.EnsureBody(*function);
  return 0;
}
