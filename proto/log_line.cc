// SPDX-License-Identifier: Apache-2.0
#include "proto/log_line.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "proto/printable.h"
#include "settings/log_line.h"

namespace farcall {

namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr std::string_view kTime = "0000-00-00T00:00:00.000Z ";  // 0: a digit
constexpr std::string_view kOurs = "farcall-";

LogSeverity MostSevereShown() {
  static const LogSeverity most = [] {
    const char* wanted = std::getenv("FARCALL_LOG");
    if (wanted == nullptr || *wanted == '\0') return LogSeverity::kInfo;
    const LogSeverity named = LogSeverityOf(wanted);
    return named == LogSeverity::kOff && FarcallLogLevelOf(wanted) != kFarcallOff
               ? LogSeverity::kInfo
               : named;
  }();
  return most;
}

bool BeginsWithTime(std::string_view line) {
  if (line.size() < kTime.size()) return false;
  for (size_t i = 0; i < kTime.size(); ++i) {
    const bool fits = kTime[i] == '0' ? line[i] >= '0' && line[i] <= '9' : line[i] == kTime[i];
    if (!fits) return false;
  }
  return true;
}

}  // namespace

const char* LogSeverityName(LogSeverity severity) {
  return FarcallLogLevelName(static_cast<int>(severity));
}

LogSeverity LogSeverityOf(std::string_view name) {
  const int level = FarcallLogLevelOf(std::string(name).c_str());
  return level < 0 ? LogSeverity::kOff : static_cast<LogSeverity>(level);
}

void LogLine(LogSeverity severity, const char* component, std::string_view text) {
  if (severity > MostSevereShown()) return;
  const int saved_errno = errno;
  char head[kFarcallLogHeadBytes];
  std::string line(head, FarcallLogHead(head, sizeof(head), LogSeverityName(severity), component));
  line.append(Printable(text, kMaxTextBytes)).push_back('\n');
  (void)!write(STDERR_FILENO, line.data(), line.size());
  errno = saved_errno;
}

LogLineParts ParseLogLine(std::string_view line) {
  const LogLineParts none{LogSeverity::kOff, {}, line};
  if (!BeginsWithTime(line)) return none;
  std::string_view rest = line.substr(kTime.size());
  const size_t space = rest.find(' ');
  if (space == rest.npos) return none;
  const LogSeverity severity = LogSeverityOf(rest.substr(0, space));
  rest.remove_prefix(space + 1);
  const size_t colon = rest.find(": ");
  if (severity == LogSeverity::kOff || colon == rest.npos || rest.substr(0, kOurs.size()) != kOurs)
    return none;
  const std::string_view component = rest.substr(kOurs.size(), colon - kOurs.size());
  if (component.empty() || component.find(' ') != component.npos) return none;
  return {severity, component, rest.substr(colon + 2)};
}

}  // namespace farcall
