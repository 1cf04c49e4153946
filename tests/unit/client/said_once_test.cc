// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/report/said_once.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

TEST(SaidOnceTest, EachTextIsNewOnce) {
  auto& said = *new SaidOnce;  // a ForkLock is never destroyed
  EXPECT_TRUE(said.IsNew("a launch: no such kernel"));
  EXPECT_FALSE(said.IsNew("a launch: no such kernel"));
  EXPECT_TRUE(said.IsNew("a launch: another"));
  EXPECT_TRUE(said.IsNew("a copy: no such kernel"));
}

TEST(SaidOnceTest, AServersReasonsDoNotFillTheClient) {
  auto& said = *new SaidOnce(256);  // a ForkLock is never destroyed
  size_t heard = 0;
  for (int i = 0; i < 10'000; ++i) heard += said.IsNew(std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(heard, 256u);
}

}  // namespace
}  // namespace farcall::client
