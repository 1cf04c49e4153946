// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/base/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu-device/driver/base/kind.h"
#include "settings/log_line.h"

namespace farcall::cpu_device {
namespace {

LogLevel ReadLevel() {
  const char* wanted = getenv("FARCALL_LOG");
  if (wanted == nullptr || *wanted == '\0') return LogLevel::kWarn;
  if (const int level = FarcallLogLevelOf(wanted); level >= 0) return static_cast<LogLevel>(level);
  fprintf(stderr, "farcall: FARCALL_LOG=%s: want off, error, warn, info, debug or trace\n", wanted);
  return LogLevel::kWarn;
}

FILE* OpenSink() {
  const char* path = getenv("FARCALL_LOG_FILE");
  FILE* file = path != nullptr && *path != '\0' ? fopen(path, "ae") : nullptr;
  return file != nullptr ? file : stderr;
}

}  // namespace

bool LogEnabled(LogLevel level) {
  static const LogLevel limit = ReadLevel();
  return level <= limit;
}

void Log(LogLevel level, const char* format, ...) {
  if (!LogEnabled(level)) return;
  static FILE* const sink = OpenSink();
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  char head[kFarcallLogHeadBytes];
  FarcallLogHead(head, sizeof(head), FarcallLogLevelName(static_cast<int>(level)),
                 kDeviceKind.log_name);
  fprintf(sink, "%s%s\n", head, line);
  fflush(sink);
}

}  // namespace farcall::cpu_device
