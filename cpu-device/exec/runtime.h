// SPDX-License-Identifier: Apache-2.0
// Functions compiled kernels call: checks, faults, printf, malloc, rounding modes, libm.
#pragma once

#include <cstdint>
#include <string_view>

namespace farcall::cpu_device {

// The C function of that name that compiled code may call; nullptr if there is none.
void* FindRuntimeSymbol(std::string_view name);

struct RuntimeSymbol {
  std::string_view name;
  void* address;
};
struct BlockContext;
// Slow path of a generic or global access: outside the device window, or misaligned. Raises a fault
// unless the block may access those bytes.
void CheckAccess(BlockContext* block, uint64_t address, uint32_t bytes, uint32_t line);
// Whether the block may access `bytes` at `first`, at `last` and everywhere between, and `first` is
// aligned: 1 or 0, which need not be the last word. Of a loop whose accesses are not in the window.
uint32_t ReachesAll(BlockContext* block, uint64_t first, uint64_t last, uint32_t bytes);

// Raises the fault of an access to shared or local memory that is misaligned or lies outside.
[[noreturn]] void WindowFault(const char* space, uint64_t offset, uint64_t size, uint32_t bytes,
                              uint32_t line);

// Directed rounding and format conversions: runtime_float.cc.
const RuntimeSymbol* FloatSymbols(unsigned* count);

}  // namespace farcall::cpu_device
