// SPDX-License-Identifier: Apache-2.0
// Host functions the application gave to a stream: the server learns a number, never an address.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>

namespace farcall::client {

enum class HostFunctionKind : uint8_t {
  kOnce,      // a stream's: forgotten after its call
  kCaptured,  // a graph's node: stays
  kOurs,      // runs once and is none of the application's: changes none of its memory
};

uint64_t RegisterHostFunction(std::function<void(CUresult status)> function, HostFunctionKind kind);
// Of ours, run once: its stream goes on when it calls `done`, from any thread.
uint64_t RegisterDeferred(std::function<void(std::function<void()> done)> function);
// One of the application's has not run yet, or may run again: host memory may still change before
// work that is being enqueued now.
bool HostFunctionsPending();
bool IsHostFunction(uint64_t id);
// `done` is called once it has run; by one that defers, when it says so.
void RunHostFunction(uint64_t id, CUresult status, const std::function<void()>& done = {});
// True on the thread that runs host functions: CUDA calls are not permitted there.
bool InHostFunction();

}  // namespace farcall::client
