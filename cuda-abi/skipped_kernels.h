// SPDX-License-Identifier: Apache-2.0
// An export table (cuGetExportTable) with which a libcuda that executes only what has PTX says what
// it has left out. No other has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::cuda_abi {

inline constexpr uint8_t kSkippedKernelsTable[16] = {
    0x2e, 0x94, 0x7b, 0xd0, 0x18, 0xc3, 0x45, 0x6f, 0x90, 0xaa, 0x5d, 0x37, 0xe4, 0x0b, 0x76, 0x81};

struct SkippedKernelsTable {
  size_t bytes;  // of this struct
  // Calls `tell` for each kernel of which a launch was skipped in this process, with how many were.
  void (*each)(void (*tell)(const char* kernel, uint64_t launches, void* user), void* user);
};

}  // namespace farcall::cuda_abi
