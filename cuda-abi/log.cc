// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "settings/log_line.h"

namespace farcall::cuda_abi {
namespace {

std::atomic<LogSink> g_sink{nullptr};

}  // namespace

void SetLogSink(LogSink sink) {
  g_sink.store(sink, std::memory_order_release);
}

void Log(LogLevel level, const char* format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (LogSink sink = g_sink.load(std::memory_order_acquire)) {
    sink(level, line);
  } else if (level <= LogLevel::kWarn) {
    char head[kFarcallLogHeadBytes];
    FarcallLogHead(head, sizeof(head), level == LogLevel::kWarn ? "warn" : "error", "cuda-abi");
    fprintf(stderr, "%s%s\n", head, line);
  }
}

}  // namespace farcall::cuda_abi
