// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/device_time.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace farcall::cpu_device {

namespace {

constexpr int kMostDevices = 16;
std::array<std::atomic<uint64_t>, kMostDevices> g_used_ns;
std::atomic<unsigned> g_threads{0};
thread_local int t_device = -1;

uint64_t ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

int DeviceOfThread() {
  return t_device;
}

// One inside another counts for the outer alone; the clock costs a system call.
DeviceTimer::DeviceTimer(int device)
    : before_(t_device), begun_ns_(t_device < 0 ? ThreadTime() : 0) {
  t_device = device;
}

DeviceTimer::~DeviceTimer() {
  if (before_ < 0 && t_device >= 0 && t_device < kMostDevices) {
    g_used_ns[static_cast<size_t>(t_device)].fetch_add(ThreadTime() - begun_ns_);
  }
  t_device = before_;
}

unsigned ThreadsOfDevices() {
  unsigned threads = g_threads.load();
  return threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
}

void SetThreadsOfDevices(unsigned threads) {
  g_threads.store(threads);
}

uint64_t DeviceThreadTime(int device) {
  return device < 0 || device >= kMostDevices ? 0 : g_used_ns[static_cast<size_t>(device)].load();
}

}  // namespace farcall::cpu_device
