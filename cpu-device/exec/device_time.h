// SPDX-License-Identifier: Apache-2.0
// What devices have used of this process's cores: thread time, not wall time, so that a busy host
// counts for nothing.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

// The device for which this thread works; -1: none.
int DeviceOfThread();

// While it lives, the thread's time is the device's.
class DeviceTimer {
 public:
  explicit DeviceTimer(int device);
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

 private:
  const int before_;
};

// How many threads a device's work may have at once: the pool's.
unsigned ThreadsOfDevices();
void SetThreadsOfDevices(unsigned threads);

// Thread time of all threads, of what runs too; never less than before.   Thread  any
uint64_t DeviceThreadTime(int device);

}  // namespace farcall::cpu_device
