// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "client-shim/core/log_ring.h"

namespace farcall::client {

std::atomic<int> g_log_level{static_cast<int>(LogLevel::kWarn)};

namespace {
std::atomic<int> g_log_fd{STDERR_FILENO};
constexpr const char* kNames[] = {"off", "error", "warning", "info", "debug", "trace"};
}  // namespace

void Log(LogLevel level, const char* format, ...) {
  bool kept = level == LogLevel::kError || level == LogLevel::kWarn;
  if (!kept && !LogEnabled(level)) return;
  int saved_errno = errno;
  char line[1024];
  int head = std::snprintf(line, sizeof(line), "farcall: %s: ", kNames[static_cast<int>(level)]);
  va_list args;
  va_start(args, format);
  int body = std::vsnprintf(line + head, sizeof(line) - head - 1, format, args);
  va_end(args);
  size_t used = head + (body < 0 ? 0 : body);
  if (used > sizeof(line) - 2) used = sizeof(line) - 2;
  // One line per message whatever a peer's text holds.
  for (size_t i = 0; i < used; ++i) {
    if (static_cast<unsigned char>(line[i]) < 0x20) line[i] = ' ';
  }
  if (kept) KeepLogLine(level, std::string_view(line, used));
  line[used] = '\n';
  if (!LogEnabled(level)) {
    errno = saved_errno;
    return;
  }
  ssize_t ignored = write(g_log_fd.load(std::memory_order_relaxed), line, used + 1);
  (void)ignored;
  errno = saved_errno;
}

bool SetLogFile(const char* path) {
  if (path == nullptr || *path == '\0') return true;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  g_log_fd.store(fd, std::memory_order_relaxed);
  return true;
}

}  // namespace farcall::client
