// SPDX-License-Identifier: Apache-2.0
// The shim's log: one line per message, to stderr or FARCALL_LOG_FILE. Never ends the process,
// never throws.
#pragma once

#include <atomic>

namespace farcall::client {

enum class LogLevel : int { kOff = 0, kError, kWarn, kInfo, kDebug, kTrace };

extern std::atomic<int> g_log_level;

inline bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) <= g_log_level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Opens `path` for appending; "" = stderr. False: it cannot be opened, stderr stays.
bool SetLogFile(const char* path);

}  // namespace farcall::client
