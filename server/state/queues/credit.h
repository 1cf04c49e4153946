// SPDX-License-Identifier: Apache-2.0
// Device memory granted to the client ahead of its allocations: the first of it unasked, more when
// it asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "server/memory/device_memory.h"

namespace farcall::server {

class Credit {
 public:
  struct Hooks {
    std::function<void(int device, const Window& range)> push;  // a grant, to the client
    // Makes room of what chunks have given back; false: nothing came of it.
    std::function<bool(int device, uint64_t bytes)> make_room;
  };

  // `swaps`: the session's memory may have to leave the device for others': nothing is granted
  // beyond what is asked.
  Credit(DeviceMemory& memory, uint64_t first_bytes, bool swaps, Hooks hooks)
      : memory_(memory), first_bytes_(first_bytes), swaps_(swaps), hooks_(std::move(hooks)) {}

  // For a program that has not asked for any. On device 0 ahead of any context, for WELCOME: empty
  // if there is no room, or others may have to leave for it.   Thread  before the session runs
  Window Welcome();
  // A context has come to life on the device: whether PushFirst is due.
  bool WantsFirst(int device);
  //   Thread  the memory helper
  void PushFirst(int device);
  // As many bytes as the client asks for, and, if they are there, some ahead.
  //   Thread  the memory helper
  CUresult Grant(int device, uint64_t bytes, Window* range, std::string* detail);
  // A grant, to the client.   Thread  any
  void Push(int device, const Window& range) { hooks_.push(device, range); }

 private:
  Window First(int device);

  DeviceMemory& memory_;
  const uint64_t first_bytes_;
  const bool swaps_;
  const Hooks hooks_;
  std::atomic<bool> welcomed_{false};
};

}  // namespace farcall::server
