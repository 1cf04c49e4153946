// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/base/memfd.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "cpu-device/driver/base/log.h"

namespace farcall::cpu_device {
namespace {

// Each piece of memory holds a descriptor: a program with many takes all it may have.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int NewMemfd(const std::string& name, uint64_t bytes) {
  int fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0 && errno == EMFILE) {
    RaiseDescriptorLimit();
    fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  }
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    fd = -1;
  }
  if (fd < 0)
    Log(LogLevel::kError, "device memory: memfd of %llu bytes: %s",
        static_cast<unsigned long long>(bytes), strerror(errno));
  return fd;
}

std::string MemfdName(int fd) {
  char link[64], path[128] = {};
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof(path) - 1) < 0) return "";
  constexpr std::string_view kBegin = "/memfd:", kEnd = " (deleted)";
  const std::string_view name = path;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return "";
  return std::string(name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()));
}

}  // namespace farcall::cpu_device
