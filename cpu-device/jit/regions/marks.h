// SPDX-License-Identifier: Apache-2.0
// Calls that stand for something in the code of one thread until regions are formed.
#pragma once

namespace farcall::cpu_device::jit {

// i32(): of the thread.
inline constexpr char kMarkTid[3][16] = {"fc.thread.x", "fc.thread.y", "fc.thread.z"};
inline constexpr char kMarkLinear[] = "fc.thread.linear";
// void(): all threads of the block meet.
inline constexpr char kMarkMeet[] = "fc.meet";
// void(): the grid may be stopped here.
inline constexpr char kMarkPoll[] = "fc.poll";

}  // namespace farcall::cpu_device::jit
