// SPDX-License-Identifier: Apache-2.0
#include "transport/sync.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace farcall {
namespace {

constexpr int kThreads = 4, kTurns = 20'000;

TEST(MutexTest, LetsOneThreadInAtATime) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTurns);
}

TEST(MutexTest, ATryFailsWhileItIsHeld) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::thread other([&] { EXPECT_FALSE(mutex.try_lock()); });
  other.join();
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(MutexTest, WhoSleepsForItIsWoken) {
  Mutex mutex;
  bool entered = false;
  mutex.lock();
  std::thread other([&] {
    std::lock_guard lock(mutex);
    entered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it most likely sleeps
  mutex.unlock();
  other.join();
  EXPECT_TRUE(entered);
}

template <typename AnyMutex>
struct CondVarTest : testing::Test {};
using Mutexes = testing::Types<Mutex, std::mutex>;
TYPED_TEST_SUITE(CondVarTest, Mutexes);

// Several wait, one is told of each item: none sleeps while an item is left.
TYPED_TEST(CondVarTest, OneIsWokenForEachItem) {
  TypeParam mutex;
  CondVar came, taken;
  int items = 0, done = 0;
  bool is_over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      for (;;) {
        came.wait(lock, [&] { return items != 0 || is_over; });
        if (items == 0) return;
        --items;
        ++done;
        taken.notify_all();
      }
    });
  }
  for (int turn = 1; turn <= kTurns; ++turn) {
    {
      std::lock_guard lock(mutex);
      ++items;
    }
    came.notify_one();
    if (turn % 16 == 0) {
      std::unique_lock lock(mutex);
      taken.wait(lock, [&] { return done == turn; });
    }
  }
  {
    std::lock_guard lock(mutex);
    is_over = true;
  }
  came.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kTurns);
}

TYPED_TEST(CondVarTest, AWaitEndsByItsTime) {
  TypeParam mutex;
  CondVar changed;
  std::unique_lock lock(mutex);
  const auto never = [] { return false; };
  EXPECT_FALSE(changed.wait_for(lock, std::chrono::milliseconds(5), never));
  EXPECT_FALSE(changed.wait_until(lock, CondVar::SteadyClock::now(), never));
  EXPECT_FALSE(changed.wait_until(lock, CondVar::SteadyClock::time_point::min(), never));
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::milliseconds::max(), [] { return true; }));
}

// Each waits for the other's turn: a wake-up that is lost is a test that hangs.
TYPED_TEST(CondVarTest, EachChangeIsSeen) {
  TypeParam mutex;
  CondVar changed;
  int turn = 0;
  auto play = [&](int parity) {
    std::unique_lock lock(mutex);
    while (turn < kTurns) {
      if (turn % 2 == parity) {
        ++turn;
        changed.notify_all();
      } else {
        changed.wait(lock);
      }
    }
  };
  std::thread other(play, 0);
  play(1);
  other.join();
  EXPECT_EQ(turn, kTurns);
}

TYPED_TEST(CondVarTest, ANoticeReachesAllWhoWait) {
  TypeParam mutex;
  CondVar changed;
  bool is_open = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      while (!is_open) changed.wait(lock);
    });
  }
  {
    std::lock_guard lock(mutex);
    is_open = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
}

TYPED_TEST(CondVarTest, AWaitEndsAtItsDeadline) {
  TypeParam mutex;
  CondVar changed;
  std::unique_lock lock(mutex);
  const auto deadline = Clock::now() + std::chrono::milliseconds(20);
  while (Clock::now() < deadline) changed.wait_until(lock, deadline);
  changed.wait_until(lock, deadline);  // long past
  EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
}  // namespace farcall
