// SPDX-License-Identifier: Apache-2.0
// `sass = skip`: kernels of machine code alone load, and their launches are counted, not executed.
#pragma once

#include <memory>
#include <string_view>

#include "cpu-device/driver/base/profile.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

// Says on stderr, whatever the log level, that kernels will be skipped, and at exit which were.
void AnnounceSkipping();

// DeviceKind::load_machine_code.   Errors  those of dry::LoadCubin; kNoBinary without sass = skip
ExecResult LoadSkipped(std::string_view cubin, GlobalMemory& memory, std::unique_ptr<Program>* out);

// cuda-abi/skipped_kernels.h's table; null where nothing is skipped.
const void* SkippedKernels(const Profile& profile);

}  // namespace farcall::cpu_device
