// SPDX-License-Identifier: Apache-2.0
#include "listener/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace farcall {

size_t RaiseDescriptorLimit() {
  constexpr rlim_t kMax = rlim_t{1} << 20;  // a table of descriptors grows with what is used
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlim_t wanted = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMax));
  const rlimit raised{wanted, limit.rlim_max};
  const bool is_raised = setrlimit(RLIMIT_NOFILE, &raised) == 0;
  return static_cast<size_t>(std::min(is_raised ? wanted : limit.rlim_cur, kMax));
}

DescriptorReserve::DescriptorReserve(size_t count)
    : count_(count), first_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  held_.reserve(count);
  Refill();
}

DescriptorReserve::~DescriptorReserve() {
  for (int fd : held_) close(fd);
  if (first_ >= 0) close(first_);
}

size_t DescriptorReserve::Lend(size_t count, size_t keep) {
  std::lock_guard lock(mutex_);
  size_t lent = 0;
  for (; lent < count && held_.size() > keep; ++lent) {
    close(held_.back());
    held_.pop_back();
  }
  return lent;
}

void DescriptorReserve::Refill() {
  std::lock_guard lock(mutex_);
  while (held_.size() < count_) {
    const int fd = fcntl(first_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return;
    held_.push_back(fd);
  }
}

}  // namespace farcall
