// SPDX-License-Identifier: Apache-2.0
// An export table (cuGetExportTable) with which a libcuda says how much of a device's time this
// process has used. Ours has it; where there is none, whoever wants to know measures by events.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::cuda_abi {

inline constexpr uint8_t kDeviceTimeTable[16] = {0x6b, 0x1d, 0xc2, 0x40, 0x97, 0x3e, 0x4f, 0x58,
                                                 0xa2, 0x05, 0xf1, 0x8c, 0x2d, 0x70, 0xe9, 0xb4};

struct DeviceTimeTable {
  size_t bytes;  // of this struct
  // Nanoseconds by the clock in which anything of this process ran on the device, whatever part of
  // it that took; what overlaps counts once. What runs counts until now; never less than before.
  uint64_t (*used_ns)(int device);
};

}  // namespace farcall::cuda_abi
