// SPDX-License-Identifier: Apache-2.0
#include "transport/poll.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace farcall {

bool PollUntil(std::span<pollfd> fds, Clock::time_point deadline) {
  for (;;) {
    timespec left{};
    timespec* limit = nullptr;
    if (deadline != Clock::time_point::max()) {
      // Compared first: a time long past, "do not wait", is too far from now to subtract.
      Clock::time_point now = Clock::now();
      auto wait = deadline > now ? deadline - now : Clock::duration::zero();
      auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
      left = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
      limit = &left;
    }
    // By number: ppoll(3) is a point at which a thread can be cancelled. `left` is made anew in
    // each round.
    long ready = syscall(SYS_ppoll, fds.data(), fds.size(), limit, nullptr, size_t{0});
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) {
      return true;
    }  // the call that follows names the fault
  }
}

}  // namespace farcall
