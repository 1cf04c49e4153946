// SPDX-License-Identifier: Apache-2.0
// Log lines of programs whose log is standard error, and what a line of that form says
// (settings/log_line.h).
#pragma once

#include <string_view>

namespace farcall {

enum class LogSeverity { kOff, kError, kWarn, kInfo, kDebug, kTrace };

// "warn". As FARCALL_LOG has it.
const char* LogSeverityName(LogSeverity severity);
// Its opposite; kOff for another word.
LogSeverity LogSeverityOf(std::string_view name);

// Writes a line to standard error if FARCALL_LOG allows it; without that variable, info does.
//   `component`  as settings/log_line.h wants it, without "farcall-"
//   `text`       any bytes: what cannot be printed is escaped, more than 4 KiB are cut
//   Thread       any; a line is written whole
void LogLine(LogSeverity severity, const char* component, std::string_view text);

struct LogLineParts {
  LogSeverity severity = LogSeverity::kOff;  // kOff: it is no such line, and all of it is `text`
  std::string_view component;                // without "farcall-"
  std::string_view text;
};
// Views of `line`.
LogLineParts ParseLogLine(std::string_view line);

}  // namespace farcall
