// SPDX-License-Identifier: Apache-2.0
// Sizes of what a rank keeps on its device for the others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::nccl {

inline constexpr uint32_t kSlots = 2;
inline constexpr size_t kChunkBytes = 2u << 20;        // of a collective
inline constexpr size_t kPeerChunkBytes = 256u << 10;  // of a send to one rank

enum class Flag : uint32_t { kReady, kFree, kPeerReady, kPeerFree };
inline constexpr size_t kFlags = 4;

}  // namespace farcall::nccl
