// SPDX-License-Identifier: Apache-2.0
// Ways through a kernel's code between barriers and operations of the warp.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::jit {

// A barrier or an operation of the warp: threads are together behind it.
bool MeetsOthers(const ptx::Instruction& instruction);

// A volatile store of a function to memory that may be shared: its pointers are generic.
bool IsVolatileOfCallee(const ptx::Instruction& instruction);

// Walks are bounded: past the bound, each place counts as reached.
class ExchangePaths {
 public:
  explicit ExchangePaths(const ptx::Function& entry) : entry_(entry), reached_(entry.body.size()) {}
  // From behind `from` a thread can come to `to` before its warp meets.
  bool Lead(uint32_t from, uint32_t to);
  // From `first` on, `first` too.
  bool LeadFrom(uint32_t first, uint32_t to);

 private:
  const ptx::Function& entry_;
  std::vector<std::vector<bool>> reached_;
  size_t walks_ = 0;
};

}  // namespace farcall::cpu_device::jit
