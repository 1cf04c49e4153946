// SPDX-License-Identifier: Apache-2.0
// What client-shim/old_glibc stands in for: a program's start and end, unwinding, timed waits,
// stat, random numbers, number parsing. Exit code 0 and "ok" if each does what libc's own does.
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" int farcall_WaitOnRealTime(pthread_cond_t*, pthread_mutex_t*, clockid_t,
                                      const timespec*);

namespace {

int constructed = 0;
struct Global {
  Global() { ++constructed; }
  ~Global() { std::puts("ok"); }  // the destructors ran
} global;

void Expect(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "failed: %s\n", what);
    std::_Exit(1);
  }
}

bool Catches() {
  try {
    return std::stoi("no number") == 0;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

void CheckTimedWaits() {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable wake;
  bool flag = false;
  std::unique_lock lock(mutex);
  const auto limit = std::chrono::milliseconds(1100);  // longer than one step of the stand-in
  const auto start = Clock::now();
  Expect(!wake.wait_for(lock, limit, [&] { return flag; }),
         "a wait with nobody to end it times out");
  Expect(Clock::now() - start >= limit, "a wait does not end before its time");
  Expect(!wake.wait_until(lock, start, [&] { return flag; }),
         "a deadline in the past ends at once");
  std::thread other([&] {
    std::lock_guard guard(mutex);
    flag = true;
    wake.notify_one();
  });
  Expect(wake.wait_for(lock, std::chrono::hours(1), [&] { return flag; }), "a notified wait ends");
  lock.unlock();
  other.join();
}

// What pthread_cond_clockwait does before glibc 2.30, here on any: early returns, never an early
// end.
void CheckWaitOnRealTime() {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  timespec deadline{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += 1;
  deadline.tv_nsec += 100'000'000;
  pthread_mutex_lock(&mutex);
  int result = 0, returns = 0;
  while (result == 0) {
    result = farcall_WaitOnRealTime(&condition, &mutex, CLOCK_MONOTONIC, &deadline);
    ++returns;
  }
  clock_gettime(CLOCK_MONOTONIC, &now);
  Expect(result == ETIMEDOUT && returns > 1, "a wait of more than a second is made in steps");
  Expect((now.tv_sec - deadline.tv_sec) * 1'000'000'000 + now.tv_nsec - deadline.tv_nsec >= 0,
         "and lasts until its deadline");
  pthread_mutex_unlock(&mutex);
}

void CheckStat(const char* self) {
  struct stat file {};
  Expect(stat(self, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0, "stat");
  FILE* opened = std::fopen(self, "rb");
  struct stat same {};
  Expect(opened != nullptr && fstat(fileno(opened), &same) == 0 && same.st_ino == file.st_ino,
         "fstat");
  std::fclose(opened);
  char folder[] = "/tmp/farcall-stand-ins-XXXXXX";
  Expect(mkdtemp(folder) != nullptr, "a temporary folder");
  const std::string link = std::string(folder) + "/link";
  Expect(
      symlink(self, link.c_str()) == 0 && lstat(link.c_str(), &file) == 0 && S_ISLNK(file.st_mode),
      "lstat");
  unlink(link.c_str());
  rmdir(folder);
  Expect(stat("/no/such/file", &file) == -1 && errno == ENOENT, "stat of nothing sets errno");
}

}  // namespace

int main(int, char** argv) {
  Expect(constructed == 1, "constructors run once");
  Expect(Catches(), "a throw out of libstdc++ is caught");
  std::thread([] { Expect(Catches(), "the same in a thread"); }).join();
  CheckTimedWaits();
  CheckWaitOnRealTime();
  CheckStat(argv[0]);
  std::set<unsigned> numbers;
  for (int i = 0; i < 16; ++i) numbers.insert(std::random_device("default")());
  Expect(numbers.size() > 8, "random numbers differ");
  char* end = nullptr;
  Expect(std::strtoull("0x1fz", &end, 16) == 0x1f && *end == 'z', "strtoull");
  return 0;
}
