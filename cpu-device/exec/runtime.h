// SPDX-License-Identifier: Apache-2.0
// Functions compiled kernels call: checks, faults, printf, malloc, rounding modes, libm.
#pragma once

#include <string_view>

namespace farcall::cpu_device {

// The C function of that name that compiled code may call; nullptr if there is none.
void* FindRuntimeSymbol(std::string_view name);

struct RuntimeSymbol {
  std::string_view name;
  void* address;
};
// Directed rounding and format conversions: runtime_float.cc.
const RuntimeSymbol* FloatSymbols(unsigned* count);

}  // namespace farcall::cpu_device
