// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/connection/server_latch.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

TEST(ServerLatch, CallsWhatWaitsOnceItIsSet) {
  auto latch = ServerLatch::New(0);
  int calls = 0;
  latch->WhenSet([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  latch->Set();
  latch->Set();
  EXPECT_EQ(calls, 1);
}

TEST(ServerLatch, CallsAtOnceWhatComesLater) {
  auto latch = ServerLatch::New(0);
  latch->Set();
  int calls = 0;
  latch->WhenSet([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(ServerLatch, AServerThatIsLostSetsItsOwn) {
  auto lost = ServerLatch::New(1), other = ServerLatch::New(2);
  int lost_calls = 0, other_calls = 0;
  lost->WhenSet([&] { ++lost_calls; });
  other->WhenSet([&] { ++other_calls; });
  SetLatchesOf(1);
  EXPECT_EQ(lost_calls, 1);
  EXPECT_EQ(other_calls, 0);
  auto late = ServerLatch::New(1);
  late->WhenSet([&] { ++lost_calls; });
  EXPECT_EQ(lost_calls, 2) << "the server is lost already";
  SetLatchesOf(2);
}

}  // namespace
}  // namespace farcall::client
