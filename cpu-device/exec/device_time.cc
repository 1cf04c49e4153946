// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/device_time.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace farcall::cpu_device {

namespace {

constexpr int kMostDevices = 16;
std::atomic<unsigned> g_threads{0};

using Times = std::array<uint64_t, kMostDevices>;

uint64_t TimeOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

// One thread's account. What it is at now is read by others, from its clock.
struct Account {
  clockid_t clock{};
  std::mutex mutex;  // all below
  Times used_ns{};
  int device = -1;
  uint64_t begun_ns = 0;

  uint64_t Used(int of) {
    std::lock_guard lock(mutex);
    return used_ns[static_cast<size_t>(of)] + (device == of ? TimeOf(clock) - begun_ns : 0);
  }
};

// Of all threads; leaked, for those that work until the process is gone.
struct Book {
  std::mutex mutex;  // all below
  std::set<Account*> accounts;
  Times gone_ns{};  // of threads that have ended
};

Book& TheBook() {
  static Book* book = new Book;
  return *book;
}

class Entry {
 public:
  Entry() {
    pthread_getcpuclockid(pthread_self(), &account_.clock);
    std::lock_guard lock(TheBook().mutex);
    TheBook().accounts.insert(&account_);
  }
  ~Entry() {
    std::lock_guard lock(TheBook().mutex);
    TheBook().accounts.erase(&account_);
    for (size_t i = 0; i < account_.used_ns.size(); ++i)
      TheBook().gone_ns[i] += account_.used_ns[i];
  }
  Account& account() { return account_; }

 private:
  Account account_;
};

thread_local int t_device = -1;

Account& Own() {
  static thread_local Entry entry;
  return entry.account();
}

bool IsCounted(int device) {
  return device >= 0 && device < kMostDevices;
}

}  // namespace

int DeviceOfThread() {
  return t_device;
}

// One inside another counts for the outer alone; the clock costs a system call.
DeviceTimer::DeviceTimer(int device) : before_(t_device) {
  t_device = device;
  if (before_ >= 0 || !IsCounted(device)) return;
  Account& own = Own();
  std::lock_guard lock(own.mutex);
  own.device = device;
  own.begun_ns = TimeOf(CLOCK_THREAD_CPUTIME_ID);
}

DeviceTimer::~DeviceTimer() {
  if (before_ < 0 && IsCounted(t_device)) {
    Account& own = Own();
    std::lock_guard lock(own.mutex);
    own.used_ns[static_cast<size_t>(own.device)] += TimeOf(CLOCK_THREAD_CPUTIME_ID) - own.begun_ns;
    own.device = -1;
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
  if (!IsCounted(device)) return 0;
  std::lock_guard lock(TheBook().mutex);
  uint64_t sum = TheBook().gone_ns[static_cast<size_t>(device)];
  for (Account* account : TheBook().accounts) sum += account->Used(device);
  return sum;
}

}  // namespace farcall::cpu_device
