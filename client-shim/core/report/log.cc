// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/report/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "client-shim/core/report/log_ring.h"
#include "proto/printable.h"
#include "settings/log_line.h"

namespace farcall::client {

std::atomic<int> g_log_level{static_cast<int>(LogLevel::kWarn)};

namespace {
std::atomic<int> g_log_fd{STDERR_FILENO};
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}
}  // namespace

void Log(LogLevel level, const char* format, ...) {
  bool kept = level == LogLevel::kError || level == LogLevel::kWarn;
  if (!kept && !LogEnabled(level)) return;
  int saved_errno = errno;
  char line[1024];
  const size_t head =
      FarcallLogHead(line, sizeof(line), FarcallLogLevelName(static_cast<int>(level)), "client");
  va_list args;
  va_start(args, format);
  int body = std::vsnprintf(line + head, sizeof(line) - head - 1, format, args);
  va_end(args);
  size_t used = head + (body < 0 ? 0 : body);
  if (used > sizeof(line) - 2) used = sizeof(line) - 2;
  // One line per message, and nothing for the terminal, whatever a peer's text holds.
  if (!IsPlain(std::string_view(line, used))) {
    const std::string clean = Printable(std::string_view(line, used), sizeof(line) - 2);
    used = clean.size();
    std::memcpy(line, clean.data(), used);
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
