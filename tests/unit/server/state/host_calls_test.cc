// SPDX-License-Identifier: Apache-2.0
#include "server/state/queues/host_calls.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

TEST(HostCalls, ACallIsFinishedOnceByItsToken) {
  HostCalls calls;
  int first = 0, second = 0;
  const uint64_t token = calls.Add([&first] { ++first; });
  const uint64_t other = calls.Add([&second] { ++second; });
  EXPECT_NE(token, other);
  EXPECT_TRUE(calls.Finish(token));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  EXPECT_FALSE(calls.Finish(token)) << "it is over";
  EXPECT_FALSE(calls.Finish(0)) << "no call has this token";
  EXPECT_EQ(first, 1);
}

TEST(HostCalls, WhatIsUnderWayIsFinishedAtTheEndAndMayAddMore) {
  HostCalls calls;
  int done = 0;
  calls.Add([&] { ++done; });
  calls.Add([&] { calls.Add([&] { ++done; }); });
  calls.FinishAll();
  EXPECT_EQ(done, 1);
  calls.FinishAll();
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace farcall::server
