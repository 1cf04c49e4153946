// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cudart/refuse.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "settings/log_line.h"

namespace farcall::cudart {
namespace {

bool Warns() {
  const char* level = getenv("FARCALL_LOG");
  const int number = level == nullptr ? -1 : FarcallLogLevelOf(level);
  return number < 0 || number >= kFarcallWarn;
}

void Write(const char* line, size_t bytes) {
  const int saved_errno = errno;
  const char* path = getenv("FARCALL_LOG_FILE");
  int file = -1;
  if (path != nullptr && *path != '\0')
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  [[maybe_unused]] ssize_t ignored = write(file >= 0 ? file : STDERR_FILENO, line, bytes);
  if (file >= 0) close(file);
  errno = saved_errno;
}

}  // namespace

void SayOnce(const char* what, const char* detail, int* said) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) != 0 || !Warns()) return;
  char line[512];
  const size_t head = FarcallLogHead(line, sizeof(line), "warn", "libcudart");
  const int text = snprintf(line + head, sizeof(line) - head, "%s %s\n", what, detail);
  if (text > 0) Write(line, std::min(head + static_cast<size_t>(text), sizeof(line) - 1));
}

void Refuse(const char* name, const char* why, int* said) {
  SayOnce(name, why, said);
}

}  // namespace farcall::cudart
