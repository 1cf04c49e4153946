// SPDX-License-Identifier: Apache-2.0
// The memory ledger: exact limits, refunds, accounts shared by sessions, threads.
#include "quota/memory/memory_ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace farcall::quota {
namespace {

TEST(MemoryLedger, GrantsTheLastByteAndRefusesTheNext) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  Result<Charge> most = ledger.Reserve("a", 0, 99);
  ASSERT_TRUE(most.ok());
  Result<Charge> last = ledger.Reserve("a", 0, 1);
  ASSERT_TRUE(last.ok());
  Result<Charge> over = ledger.Reserve("a", 0, 1);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.status().code(), Code::kQuotaExceeded);
  EXPECT_EQ(over.status().message(), "device memory: asked 1 bytes, 0 free of 100");
}

TEST(MemoryLedger, RefusesASizeThatWouldWrap) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  Result<Charge> some = ledger.Reserve("a", 0, 60);
  ASSERT_TRUE(some.ok());
  EXPECT_FALSE(ledger.Reserve("a", 0, ~uint64_t{0}).ok());
  EXPECT_FALSE(ledger.Reserve("a", 0, ~uint64_t{0} - 59).ok());
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 60u);
}

TEST(MemoryLedger, RefundsWhenAChargeGoes) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  {
    Result<Charge> charge = ledger.Reserve("a", 0, 80);
    ASSERT_TRUE(charge.ok());
    EXPECT_EQ(charge->RefundSome(30), 30u);
    EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 50u);
    EXPECT_EQ(charge->RefundSome(1000), 50u) << "no more than it holds";
    EXPECT_EQ(charge->RefundSome(1), 0u);
  }
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 0u);
}

TEST(MemoryLedger, SplitsWithoutCountingTwice) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  Result<Charge> all = ledger.Reserve("a", 0, 50);
  ASSERT_TRUE(all.ok());
  {
    Charge part = all->Split(20);
    EXPECT_EQ(part.bytes(), 20u);
    EXPECT_EQ(all->bytes(), 30u);
    EXPECT_EQ(all->Split(1000).bytes(), 30u) << "no more than it holds, and refunded at once";
    EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 20u);
  }
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 0u);
}

TEST(MemoryLedger, MovesAndMergesWithoutCountingTwice) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  Result<Charge> first = ledger.Reserve("a", 0, 10);
  Result<Charge> second = ledger.Reserve("a", 0, 20);
  ASSERT_TRUE(first.ok() && second.ok());
  Charge all = std::move(*first);
  all.Merge(std::move(*second));
  EXPECT_EQ(all.bytes(), 30u);
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 30u);
  all.Refund();
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 0u);
}

TEST(MemoryLedger, SharesOneAccountAmongTheSessionsOfAVgpu) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  ledger.Open("a", 0, 5000);
  EXPECT_EQ(ledger.usage("a", 0).quota_bytes, 100u) << "a joiner does not raise the quota";
  Result<Charge> one = ledger.Reserve("a", 0, 70);
  EXPECT_FALSE(ledger.Reserve("a", 0, 40).ok());
  ledger.Close("a", 0);
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 70u);
  one->Refund();
  ledger.Close("a", 0);
  EXPECT_FALSE(ledger.Reserve("a", 0, 1).ok()) << "closed by its last holder";
}

TEST(MemoryLedger, KeepsVgpusAndDevicesApart) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  ledger.Open("a", 1, 100);
  ledger.Open("b", 0, 100);
  Result<Charge> a0 = ledger.Reserve("a", 0, 100);
  Result<Charge> a1 = ledger.Reserve("a", 1, 100);
  Result<Charge> b0 = ledger.Reserve("b", 0, 100);
  EXPECT_TRUE(a0.ok() && a1.ok() && b0.ok());
  EXPECT_EQ(ledger.charged_on_device(0), 200u);
}

TEST(MemoryLedger, RefusesUntilUnderALoweredQuota) {
  MemoryLedger ledger;
  ledger.Open("a", 0, 100);
  Result<Charge> charge = ledger.Reserve("a", 0, 80);
  ASSERT_TRUE(ledger.SetQuota("a", 0, 50).ok());
  EXPECT_EQ(ledger.usage("a", 0).free_bytes(), 0u);
  EXPECT_FALSE(ledger.Reserve("a", 0, 1).ok());
  charge->RefundSome(40);
  EXPECT_TRUE(ledger.Reserve("a", 0, 10).ok());
  EXPECT_FALSE(ledger.SetQuota("nobody", 0, 1).ok());
}

TEST(MemoryLedger, NeverGoesOverUnderThreads) {
  constexpr uint64_t kQuota = 1000;
  MemoryLedger ledger;
  ledger.Open("a", 0, kQuota);
  std::atomic<uint64_t> held{0}, worst{0}, refused{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 4000; ++i) {
        uint64_t bytes = 1 + random() % 400;
        Result<Charge> charge = ledger.Reserve("a", 0, bytes);
        if (!charge.ok()) {
          ++refused;
          continue;
        }
        uint64_t now = held += bytes;
        uint64_t seen = worst;
        while (now > seen && !worst.compare_exchange_weak(seen, now)) {
        }
        if (i % 8 == 0) std::this_thread::yield();
        held -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(worst, kQuota);
  EXPECT_GT(refused, 0u) << "the load never met the limit: the test shows nothing";
  EXPECT_EQ(ledger.usage("a", 0).charged_bytes, 0u);
}

}  // namespace
}  // namespace farcall::quota
