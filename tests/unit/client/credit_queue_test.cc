// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/credit_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

namespace farcall::client {
namespace {

// A caller in a thread of its own, whose attempt ends when it is told.
class Caller {
 public:
  Caller(CreditQueue& queue, int device, uint64_t bytes)
      : thread_([this, &queue, device, bytes] {
          result_ = queue.Run(device, bytes, [this] {
            begun_.release();
            end_.acquire();
            return told_;
          });
        }) {}
  ~Caller() {
    if (thread_.joinable()) thread_.join();
  }
  void WaitBegun() { begun_.acquire(); }
  bool HasBegun() { return begun_.try_acquire(); }
  void End(CUresult result) {
    told_ = result;
    end_.release();
  }
  CUresult Result() {
    thread_.join();
    return result_;
  }

 private:
  std::binary_semaphore begun_{0}, end_{0};
  CUresult told_ = CUDA_SUCCESS;
  CUresult result_ = CUDA_ERROR_UNKNOWN;
  std::thread thread_;
};

TEST(CreditQueue, OneAttemptAtATime) {
  CreditQueue queue;
  std::atomic<int> running{0}, most{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const CUresult result = queue.Run(0, 512, [&] {
          most = std::max(most.load(), ++running);
          --running;
          ++done;
          return CUDA_SUCCESS;
        });
        EXPECT_EQ(result, CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 8 * 200);
}

void WaitForLine(CreditQueue& queue, size_t length) {
  while (queue.waiting(0) != length) std::this_thread::yield();
}

// Of those who wait the smallest attempts, and its refusal is the others'.
TEST(CreditQueue, ARefusalIsOfAllWhoWantAsMuch) {
  CreditQueue queue;
  Caller first(queue, 0, 4096);
  first.WaitBegun();
  std::atomic<int> attempts{0};
  std::vector<std::thread> threads;
  std::vector<CUresult> results(8, CUDA_ERROR_UNKNOWN);
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      results[t] = queue.Run(0, 8192 - 512 * t, [&] {
        ++attempts;
        return CUDA_ERROR_OUT_OF_MEMORY;
      });
    });
  }
  WaitForLine(queue, 8);
  first.End(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(first.Result(), CUDA_ERROR_OUT_OF_MEMORY);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, std::vector(8, CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(attempts, 1);
}

// It began before they asked: something may have been freed in between.
TEST(CreditQueue, ARefusalOfBeforeIsNobodysButItsOwn) {
  CreditQueue queue;
  Caller first(queue, 0, 512);
  first.WaitBegun();
  Caller second(queue, 0, 1024);
  first.End(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(first.Result(), CUDA_ERROR_OUT_OF_MEMORY);
  second.WaitBegun();
  second.End(CUDA_SUCCESS);
  EXPECT_EQ(second.Result(), CUDA_SUCCESS);
}

TEST(CreditQueue, WhoWantsLessAsksForItself) {
  CreditQueue queue;
  Caller first(queue, 0, 4096);
  first.WaitBegun();
  Caller large(queue, 0, 8192);
  WaitForLine(queue, 1);
  Caller small(queue, 0, 512);
  WaitForLine(queue, 2);
  first.End(CUDA_ERROR_OUT_OF_MEMORY);
  small.WaitBegun();
  EXPECT_FALSE(large.HasBegun());
  small.End(CUDA_SUCCESS);
  EXPECT_EQ(small.Result(), CUDA_SUCCESS);
  large.WaitBegun();
  Caller less(queue, 0, 512);
  WaitForLine(queue, 1);
  large.End(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(large.Result(), CUDA_ERROR_OUT_OF_MEMORY);
  less.WaitBegun();
  less.End(CUDA_SUCCESS);
  EXPECT_EQ(less.Result(), CUDA_SUCCESS);
  EXPECT_EQ(first.Result(), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(CreditQueue, DevicesDoNotWaitForEachOther) {
  CreditQueue queue;
  Caller one(queue, 0, 512), other(queue, 1, 512);
  one.WaitBegun();
  other.WaitBegun();
  one.End(CUDA_SUCCESS);
  other.End(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(one.Result(), CUDA_SUCCESS);
  EXPECT_EQ(other.Result(), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace farcall::client
