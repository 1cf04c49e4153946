// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/ended_sessions.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

SessionId Numbered(size_t number) {
  SessionId id{};
  for (size_t i = 0; i < sizeof(number); ++i) id[i] = static_cast<uint8_t>(number >> (8 * i));
  return id;
}

TEST(EndedSessionsTest, ACauseIsKnownForAMinute) {
  EndedSessions ended;
  const EndedSessions::Time start{};
  ended.Note(Numbered(1), {}, "the worker crashed", start);
  const EndedSessions::Ended* found = ended.Find(Numbered(1), start + std::chrono::seconds(59));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->cause, "the worker crashed");
  EXPECT_EQ(ended.Find(Numbered(1), start + std::chrono::seconds(60)), nullptr);
  EXPECT_EQ(ended.Find(Numbered(2), start), nullptr);
}

TEST(EndedSessionsTest, TheOldestGoWhereTooManyEnd) {
  EndedSessions ended;
  const EndedSessions::Time now{};
  for (size_t i = 0; i <= EndedSessions::kMax; ++i) ended.Note(Numbered(i), {}, "", now);
  EXPECT_EQ(ended.Find(Numbered(0), now), nullptr);
  EXPECT_NE(ended.Find(Numbered(1), now), nullptr);
  EXPECT_NE(ended.Find(Numbered(EndedSessions::kMax), now), nullptr);
}

}  // namespace
}  // namespace farcall::server
