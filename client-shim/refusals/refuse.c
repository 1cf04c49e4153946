// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "client-shim/refusals/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "settings/log_line.h"

static int Level(void) {
  const char* wanted = getenv("FARCALL_LOG");
  const int level = wanted == NULL ? -1 : FarcallLogLevelOf(wanted);
  return level < 0 ? kFarcallWarn : level;
}

static void Say(int level, const char* library, const char* name, const char* what) {
  if (level > Level()) return;
  const int saved_errno = errno;
  char line[256];
  size_t length = FarcallLogHead(line, sizeof(line), FarcallLogLevelName(level), library);
  const int text = snprintf(line + length, sizeof(line) - length, "%s %s\n", name, what);
  length += text > 0 ? (size_t)text : 0;
  if (length >= sizeof(line)) length = sizeof(line) - 1;
  const char* path = getenv("FARCALL_LOG_FILE");
  int file = -1;
  if (path != NULL && *path != '\0')
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  ssize_t ignored = write(file >= 0 ? file : STDERR_FILENO, line, length);
  (void)ignored;
  if (file >= 0) close(file);
  errno = saved_errno;
}

void Refuse(const char* library, const char* name, int* said) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) == 0)
    Say(kFarcallWarn, library, name, "is not supported");
}

_Noreturn void RefuseForGood(const char* library, const char* name) {
  Say(kFarcallError, library, name, "is not supported and cannot fail: the program ends");
  exit(-1);
}
