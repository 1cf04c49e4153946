// SPDX-License-Identifier: Apache-2.0
// What there is to say of one vGPU on one device: for `farcall ps`, `top` and the metrics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "quota/compute_quota.h"

namespace farcall::quota {

// Why a vGPU that has work does not run.
enum class WaitReason : uint8_t {
  kNone = 0,      // it runs, or has nothing to run
  kCap = 1,       // at its limit
  kFair = 2,      // others' turn
  kPriority = 3,  // a higher class runs
  kSwap = 4,      // its memory is not on the device
};
inline constexpr int kWaitReasons = 5;
std::string_view ToText(WaitReason reason);

struct VgpuStatus {
  std::string vgpu;
  int device = 0;
  ComputeQuota quota;
  uint32_t share_wanted_milli = 0;  // what its quota entitles it to beside those that want work now
  uint32_t share_got_milli = 0;     // of the last second or so
  Ns gpu_time_ns = 0;               // in which anything of it ran, since it came: what is charged
  Ns debt_ns = 0;                   // used beyond its limit, repaid by waiting
  Ns waited_ns[kWaitReasons] = {};  // with work ready, by reason
  WaitReason waits_for = WaitReason::kNone;  // now
  bool runs = false;                         // holds the device now
  uint64_t queued_bytes = 0;                 // of records that wait in the server
  uint64_t memory_used_bytes = 0;
  uint64_t memory_quota_bytes = 0;
};

}  // namespace farcall::quota
