// SPDX-License-Identifier: Apache-2.0
// The 64 bits of an mbarrier object, and what arrivals and bytes do to them. No atomics: all
// threads that can reach one run on one host thread.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

// Bits 0-19 pending arrivals, 20-39 expected of a phase, 40-61 bytes still to come (signed),
// 62 phase, 63 set while initialised.
inline constexpr uint32_t kMbarrierPhaseBit = 62;
inline constexpr uint32_t kMbarrierMaxCount = (1u << 20) - 1;

enum MbarrierFlags : uint32_t {
  kMbarrierDrop = 1,        // one arrival less is expected from the next phase on
  kMbarrierNoComplete = 2,  // this arrival must not end the phase
  kMbarrierIncrement = 4,   // one arrival more is pending before this one
};

// Each returns nullptr, or why the operation is not defined.
const char* InitMbarrier(uint64_t* object, uint32_t count);
// Bytes are expected (positive) or have come (negative).
const char* AddMbarrierBytes(uint64_t* object, int64_t bytes);
const char* ArriveAtMbarrier(uint64_t* object, uint32_t count, uint32_t flags);

}  // namespace farcall::cpu_device
