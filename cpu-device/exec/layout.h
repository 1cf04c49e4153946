// SPDX-License-Identifier: Apache-2.0
// Where a kernel's shared and local variables lie, over all functions it can reach. Needs bodies,
// no compiler.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device {

inline constexpr uint32_t kMaxAlign = 4096;  // of a window: a page
// %reserved_smem_offset_*: cooperative groups of several warps meet there. A block has as many
// beyond what its kernel may ask for, and they do not count as the kernel's.
inline constexpr uint32_t kReservedSharedBytes = 1024;

struct KernelLayout {
  std::vector<const ptx::Function*> functions;  // reachable, the entry first
  std::unordered_set<const ptx::Function*> recursive;
  std::unordered_set<const ptx::Function*> address_taken;  // candidates of indirect calls
  std::unordered_map<const ptx::Variable*, uint32_t> shared_offset;
  std::unordered_map<const ptx::Variable*, uint32_t> local_offset;  // of functions not recursive
  uint32_t static_shared_bytes = 0;
  uint32_t reserved_shared_offset = 0;  // kReservedSharedBytes, of a kernel that asks for them
  uint32_t dynamic_shared_offset = 0;   // where `extern .shared x[]` begins
  uint32_t local_bytes = 0;
  // The strictest of the variables there, as far as windows are aligned.
  uint32_t shared_align = 16, local_align = 16;
  bool needs_local_stack = false;  // alloca or recursion
  bool has_indirect_calls = false;
  bool uses_grid_workspace = false;  // %envreg1, %envreg2
  bool uses_reserved_shared = false;
  bool maps_blocks = false;     // mapa: addresses in other blocks of the cluster
  uint32_t register_count = 0;  // 32-bit equivalents of the entry, as an estimate
};

// Parses the bodies of `entry` and what it calls.
//   Errors  the text of the parse error; empty = success
//   Thread  the module is changed: the caller's lock
std::string ComputeLayout(ptx::Module& module, ptx::Function& entry, KernelLayout* layout);

}  // namespace farcall::cpu_device
