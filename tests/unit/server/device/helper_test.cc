// SPDX-License-Identifier: Apache-2.0
#include "server/device/helper.h"

#include <gtest/gtest.h>

#include <semaphore>

namespace farcall::server {
namespace {

TEST(Helper, IsFullByTasksUntilTheyEnd) {
  std::counting_semaphore<> gate(0), ended(0);
  Helper helper([&] { ended.release(); });
  for (int i = 0; i < Helper::kMaxTasks; ++i) {
    EXPECT_FALSE(helper.full());
    helper.Submit([&] { gate.acquire(); });
  }
  EXPECT_TRUE(helper.full());
  gate.release();
  ended.acquire();
  EXPECT_FALSE(helper.full());
  gate.release(Helper::kMaxTasks);
}

TEST(Helper, IsFullByBytesUntilTheTasksThatHoldThemEnd) {
  std::counting_semaphore<> gate(0), ended(0);
  Helper helper([&] { ended.release(); });
  helper.Submit([&] { gate.acquire(); }, Helper::kMaxHeldBytes - 1);
  EXPECT_FALSE(helper.full());
  helper.Submit([&] { gate.acquire(); }, 1u << 20);  // what is not full takes one more
  EXPECT_TRUE(helper.full());
  gate.release();
  ended.acquire();
  EXPECT_FALSE(helper.full());
  gate.release();
}

}  // namespace
}  // namespace farcall::server
