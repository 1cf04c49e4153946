// SPDX-License-Identifier: Apache-2.0
// The device's log: lines to stderr, or to FARCALL_LOG_FILE, up to the level FARCALL_LOG names
// (default warn).
#pragma once

namespace farcall::cpu_device {

enum class LogLevel { kOff, kError, kWarn, kInfo, kDebug, kTrace };

bool LogEnabled(LogLevel level);
void Log(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace farcall::cpu_device
