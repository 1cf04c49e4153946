// SPDX-License-Identifier: Apache-2.0
// A cubin as a program whose kernels load, are checked and ordered, and never run.
#pragma once

#include <memory>
#include <string_view>

#include "cpu-device/exec/program.h"

namespace farcall::cpu_device::dry {

// A kernel that is not run: `launched`, if there is one, hears of each launch.
std::unique_ptr<Kernel> MakeIdleKernel(KernelInfo info, void (*launched)(const KernelInfo&));

//   Errors  kInvalidImage, kNoBinary (for another compute capability than `cc`), kOutOfMemory
ExecResult LoadCubin(std::string_view image, uint32_t cc, void (*launched)(const KernelInfo&),
                     GlobalMemory& memory, std::unique_ptr<Program>* out);

}  // namespace farcall::cpu_device::dry
