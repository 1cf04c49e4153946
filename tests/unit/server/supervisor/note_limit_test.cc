// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/note_limit.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

TEST(NoteLimitTest, AFloodIsNotedInPartAndCountedInFull) {
  NoteLimit limit;
  NoteLimit::Time now{std::chrono::hours(1)};
  uint64_t noted = 0, counted = 0;
  for (int i = 0; i < 10'000; ++i) {
    now += std::chrono::milliseconds(1);
    if (std::optional<uint64_t> others = limit.Take(now)) {
      ++noted;
      counted += 1 + *others;
    }
  }
  EXPECT_LE(noted, 100u + 10 * 10);
  EXPECT_GE(noted, 100u + 9 * 10);
  EXPECT_GT(counted, 9'800u);
}

}  // namespace
}  // namespace farcall::server
