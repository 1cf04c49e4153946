// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/device_time.h"

#include <time.h>

#include <array>
#include <mutex>

namespace farcall::cpu_device {

namespace {

constexpr int kMaxDevices = 16;

uint64_t Now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

// The clock is read under the mutex, so that no piece begins before the one that ended last.
class BusyTime {
 public:
  void Begin() {
    std::lock_guard lock(mutex_);
    if (running_++ == 0) begun_ns_ = Now();
  }
  void End() {
    std::lock_guard lock(mutex_);
    if (--running_ == 0) used_ns_ += Now() - begun_ns_;
  }
  uint64_t used_ns() {
    std::lock_guard lock(mutex_);
    return used_ns_ + (running_ != 0 ? Now() - begun_ns_ : 0);
  }

 private:
  std::mutex mutex_;      // all below
  unsigned running_ = 0;  // pieces of work
  uint64_t begun_ns_ = 0;
  uint64_t used_ns_ = 0;
};

// Leaked: threads of the device work until the process is gone.
BusyTime* Of(int device) {
  static auto* const all = new std::array<BusyTime, kMaxDevices>;
  return device >= 0 && device < kMaxDevices ? &(*all)[static_cast<size_t>(device)] : nullptr;
}

}  // namespace

DeviceTimer::DeviceTimer(int device) : device_(device) {
  if (BusyTime* time = Of(device_)) time->Begin();
}

DeviceTimer::~DeviceTimer() {
  if (BusyTime* time = Of(device_)) time->End();
}

uint64_t DeviceBusyTime(int device) {
  BusyTime* time = Of(device);
  return time != nullptr ? time->used_ns() : 0;
}

}  // namespace farcall::cpu_device
