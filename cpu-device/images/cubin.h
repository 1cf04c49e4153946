// SPDX-License-Identifier: Apache-2.0
// What a cubin says of itself: its kernels with their parameters and needs, and its variables. The
// machine code stays opaque. The bytes may be anybody's: every offset is checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpu-device/exec/program.h"

namespace farcall::cpu_device::images {

// A pointer to another variable inside a variable's initial bytes.
struct CubinFixup {
  uint64_t offset = 0;
  uint32_t size_bytes = 8;
  size_t target = 0;  // index into Cubin::variables
  int64_t addend = 0;
};

struct CubinVariable {
  std::string name;
  uint64_t size_bytes = 0;
  uint64_t align_bytes = 1;
  std::span<const uint8_t> init;  // into the image; empty: zeros
  std::vector<CubinFixup> fixups;
};

struct Cubin {
  uint32_t arch = 0;           // 90 for sm_90
  uint32_t virtual_arch = 0;   // 90 for compute_90: what it was compiled from
  bool arch_specific = false;  // sm_90a
  std::vector<KernelInfo> kernels;
  std::vector<CubinVariable> variables;
};

bool IsElf(std::span<const uint8_t> image);

// `cubin` points into `image`.
//   Errors  false with a reason in `error`
bool ReadCubin(std::span<const uint8_t> image, Cubin* cubin, std::string* error);

}  // namespace farcall::cpu_device::images
