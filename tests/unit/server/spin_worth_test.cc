// SPDX-License-Identifier: Apache-2.0
// When to look for completions, and when not.
#include "server/session/spin_worth.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

TEST(SpinWorth, PaysWhileItFinds) {
  SpinWorth spin;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(spin.Pays());
    spin.Note(i % 3 == 0);
  }
}

TEST(SpinWorth, IsTriedSeldomOnceItFindsNothing) {
  SpinWorth spin;
  int tried = 0;
  for (int i = 0; i < 1600; ++i) {
    if (spin.Pays()) {
      ++tried;
      spin.Note(false);
    }
  }
  EXPECT_LE(tried, 110);
  EXPECT_GE(tried, 90) << "it never gives up";
}

TEST(SpinWorth, PaysAgainOnceItHasFound) {
  SpinWorth spin;
  for (int i = 0; i < 10; ++i) {
    spin.Note(false);
  }
  EXPECT_FALSE(spin.Pays());
  spin.Note(true);
  EXPECT_TRUE(spin.Pays());
}

}  // namespace
}  // namespace farcall::server
