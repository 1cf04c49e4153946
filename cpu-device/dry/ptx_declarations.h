// SPDX-License-Identifier: Apache-2.0
// What a PTX module declares: its kernels with their parameters and needs, and its variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpu-device/exec/program.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::dry {

//   Thread  one at a time
class PtxDeclarations {
 public:
  //   Errors  false, with "line N: ..." in `error`
  bool Read(std::string_view text, std::string* error);
  std::vector<std::string> KernelNames() const;
  ExecResult PlaceGlobals(GlobalMemory& memory, std::vector<GlobalInfo>* globals);
  // false: no such kernel. A body that cannot be read is told in `trouble`.
  bool Describe(std::string_view name, KernelInfo* info, std::string* trouble);

 private:
  ptx::Module module_;
  uint32_t const_bytes_ = 0;
};

}  // namespace farcall::cpu_device::dry
