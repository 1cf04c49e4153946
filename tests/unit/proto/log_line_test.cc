// SPDX-License-Identifier: Apache-2.0
#include "proto/log_line.h"

#include <gtest/gtest.h>

#include <string>

#include "settings/log_line.h"

namespace farcall {
namespace {

TEST(LogLine, ReadsWhatItWrites) {
  testing::internal::CaptureStderr();
  LogLine(LogSeverity::kWarn, "pool", "the disk\nis: full");
  const std::string written = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(written.empty());
  EXPECT_EQ(written.back(), '\n');
  const std::string line = written.substr(0, written.size() - 1);
  const LogLineParts parts = ParseLogLine(line);
  EXPECT_EQ(parts.severity, LogSeverity::kWarn);
  EXPECT_EQ(parts.component, "pool");
  EXPECT_EQ(parts.text, "the disk\\nis: full");
}

TEST(LogLine, TakesNothingElseForOne) {
  for (const char* line : {
           "",
           "farcall run: no such file",
           "2026-11-28T15:51:42.226Z",
           "2026-11-28T15:51:42.226Z warn ",
           "2026-11-28T15:51:42.226Z warn farcall-: text",
           "2026-11-28T15:51:42.226Z warn other: text",
           "2026-11-28T15:51:42.226Z loud farcall-pool: text",
           "2026-11-28T15:51:42.226Z off farcall-pool: text",
           "2026-11-28T15:51:42.226Z warn farcall-a b: text",
           "2026-11-28 15:51:42.226Z warn farcall-pool: text",
       }) {
    const LogLineParts parts = ParseLogLine(line);
    EXPECT_EQ(parts.severity, LogSeverity::kOff) << line;
    EXPECT_EQ(parts.text, line);
  }
}

TEST(LogLine, CutsTheHeadToItsRoom) {
  char head[kFarcallLogHeadBytes];
  volatile size_t room = 20;  // a constant would be a warning
  EXPECT_EQ(FarcallLogHead(head, room, "warn", "a-component"), room - 1);
  EXPECT_EQ(head[room - 1], '\0');
}

TEST(LogLine, NamesLevelsAsTheVariableDoes) {
  for (const char* name : {"error", "warn", "info", "debug", "trace"})
    EXPECT_STREQ(LogSeverityName(LogSeverityOf(name)), name);
  EXPECT_EQ(LogSeverityOf("warning"), LogSeverity::kOff);
}

}  // namespace
}  // namespace farcall
