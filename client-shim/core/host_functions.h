// SPDX-License-Identifier: Apache-2.0
// Host functions the application gave to a stream: the server learns a number, never an address.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

namespace farcall::client {

// `once`: forgotten after its call (a stream's function); else it stays (a graph's node).
uint64_t RegisterHostFunction(std::function<void(CUresult status)> function, bool once);
bool IsHostFunction(uint64_t id);
void RunHostFunction(uint64_t id, CUresult status);
// True on the thread that runs host functions: CUDA calls are not permitted there.
bool InHostFunction();

}  // namespace farcall::client
