// SPDX-License-Identifier: Apache-2.0
// How long each device has had work of this process: the union of the pieces' times, by the
// monotonic clock. It is what a GPU's utilization counts, so a grid of one block counts as one
// that fills the device, and pieces that overlap count once.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

// While it lives, a piece of work runs on the device.   Thread  any, any number at once
class DeviceTimer {
 public:
  explicit DeviceTimer(int device);
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

 private:
  const int device_;
};

// Nanoseconds in which anything ran, of what runs until now; never less than before. 0: no such
// device.   Thread  any
uint64_t DeviceBusyTime(int device);

}  // namespace farcall::cpu_device
