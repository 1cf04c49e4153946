// SPDX-License-Identifier: Apache-2.0
// Chunks made smaller by what came back of them, on a driver whose memory is a map; and the
// session's standstill meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "server/memory/device_memory.h"
#include "server/memory/host_slabs.h"
#include "server/memory/memory_swap.h"

namespace farcall::server {
namespace {

constexpr uint64_t kMiB = 1u << 20, kPage = 2 * kMiB;
constexpr uint64_t kBase = uint64_t{1} << 45;
const auto kContext = reinterpret_cast<CUcontext>(uintptr_t{16});

// Mapped memory: where -> bytes, one byte in 64 KiB kept of each.
constexpr uint64_t kGrain = 64 << 10;
std::map<uint64_t, std::vector<uint8_t>> g_mapped;
uint64_t g_created, g_most;
int g_refusals, g_registered;

uint8_t* At(uint64_t address) {
  auto found = std::prev(g_mapped.upper_bound(address));
  uint64_t index = (address - found->first) / kGrain;
  EXPECT_LT(index, found->second.size()) << "nothing is mapped there";
  return &found->second[index];
}

DriverApi MapDriver() {
  g_mapped.clear();
  g_created = g_most = 0;
  g_refusals = 0;
  DriverApi api;
  api.cuMemAddressReserve = [](CUdeviceptr* at, size_t, size_t, CUdeviceptr, unsigned long long) {
    *at = kBase;
    return CUDA_SUCCESS;
  };
  api.cuMemAddressFree = [](CUdeviceptr, size_t) { return CUDA_SUCCESS; };
  api.cuMemCreate = [](CUmemGenericAllocationHandle* handle, size_t bytes,
                       const CUmemAllocationProp*, unsigned long long) {
    if (g_refusals > 0) {
      --g_refusals;
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    g_created += bytes;
    g_most = std::max(g_most, g_created);
    *handle = bytes;
    return CUDA_SUCCESS;
  };
  api.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
    g_created -= handle;
    return CUDA_SUCCESS;
  };
  api.cuMemMap = [](CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle,
                    unsigned long long) {
    g_mapped[at] = std::vector<uint8_t>(bytes / kGrain, 0xEE);
    return CUDA_SUCCESS;
  };
  api.cuMemUnmap = [](CUdeviceptr at, size_t) {
    g_mapped.erase(at);
    return CUDA_SUCCESS;
  };
  api.cuMemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
    return CUDA_SUCCESS;
  };
  api.cuMemcpyDtoHAsync_v2 = [](void* to, CUdeviceptr from, size_t bytes, CUstream) {
    for (uint64_t i = 0; i < bytes; i += kGrain) static_cast<uint8_t*>(to)[i] = *At(from + i);
    return CUDA_SUCCESS;
  };
  api.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    for (uint64_t i = 0; i < bytes; i += kGrain) *At(to + i) = static_cast<const uint8_t*>(from)[i];
    return CUDA_SUCCESS;
  };
  api.cuMemHostRegister_v2 = [](void*, size_t, unsigned) {
    ++g_registered;
    return CUDA_SUCCESS;
  };
  api.cuMemHostUnregister = [](void*) { return CUDA_SUCCESS; };
  api.cuStreamCreate = [](CUstream*, unsigned) { return CUDA_SUCCESS; };
  api.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  api.cuStreamDestroy_v2 = [](CUstream) { return CUDA_SUCCESS; };
  api.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuCtxGetCurrent = [](CUcontext* context) {
    *context = kContext;
    return CUDA_SUCCESS;
  };
  return api;
}

class Ledger final : public MemoryBroker {
 public:
  Status Charge(int, uint64_t bytes) override {
    if (bytes > quota - charged) return {Code::kQuotaExceeded, "over"};
    charged += bytes;
    return {};
  }
  void Refund(int, uint64_t bytes) override { charged -= bytes; }
  quota::Usage Query(int) override {
    ++questions;
    return {quota, charged};
  }
  uint64_t quota = 128 * kMiB, charged = 0;
  int questions = 0;
};

class MemorySplitTest : public ::testing::Test {
 protected:
  MemorySplitTest() : api_(MapDriver()), memory_(api_, ledger_), slabs_(api_) {
    EXPECT_EQ(memory_.ReserveWindow({{kBase, uint64_t{1} << 30}}), 0);
  }
  Window Grant(uint64_t bytes) {
    Window range;
    std::string detail;
    last_ = memory_.Grant(0, bytes, &range, &detail);
    return range;
  }
  DriverApi api_;
  Ledger ledger_;
  DeviceMemory memory_;
  HostSlabs slabs_;
  CUresult last_ = CUDA_SUCCESS;
};

TEST_F(MemorySplitTest, WhatCameBackOfAChunkIsFreeAndTheRestStaysWhereItWas) {
  Window chunk = Grant(64 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, chunk.base + 6 * kMiB, 3 * kMiB, 1));
  *At(chunk.base + 6 * kMiB) = 7;
  *At(chunk.base + 9 * kMiB - 1) = 9;
  EXPECT_FALSE(memory_.SplitsFor(0, kPage)) << "nothing came back";
  EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base, 6 * kMiB));
  EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base + 10 * kMiB, 54 * kMiB));
  EXPECT_TRUE(memory_.SplitsFor(0, 124 * kMiB));
  EXPECT_FALSE(memory_.SplitsFor(0, 126 * kMiB));
  DeviceMemory::Moved moved = memory_.SplitChunks(0, kContext, slabs_);
  EXPECT_EQ(moved.result, CUDA_SUCCESS);
  EXPECT_EQ(moved.bytes, 60 * kMiB);
  EXPECT_EQ(ledger_.charged, 4 * kMiB);
  EXPECT_EQ(g_created, 4 * kMiB);
  EXPECT_EQ(*At(chunk.base + 6 * kMiB), 7);
  EXPECT_EQ(*At(chunk.base + 9 * kMiB - 1), 9);
  EXPECT_EQ(Grant(124 * kMiB).bytes, 124 * kMiB);
  EXPECT_TRUE(memory_.Contains(chunk.base + 6 * kMiB, 3 * kMiB));
  EXPECT_EQ(ledger_.charged, ledger_.quota);
}

TEST_F(MemorySplitTest, ARefusalAsksNobodyWhereNothingCouldComeBack) {
  Window chunk = Grant(64 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, chunk.base, 64 * kMiB, 1));
  EXPECT_FALSE(memory_.SplitsFor(0, kPage));
  EXPECT_EQ(ledger_.questions, 0);
}

TEST_F(MemorySplitTest, ChunksOfAboutOneSizeShareHostMemory) {
  for (int i = 0; i < 8; ++i) {  // 10, 12, 14 and 16 MiB of each stay
    Window chunk = Grant(16 * kMiB);
    const uint64_t kept = (10 + i % 4 * 2) * kMiB - (i % 4 == 3 ? kMiB : 0);
    EXPECT_TRUE(memory_.Allocate(0, chunk.base, kept, 1));
    EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base + kept, 16 * kMiB - kept));
  }
  g_registered = 0;
  EXPECT_EQ(memory_.SplitChunks(0, kContext, slabs_).bytes, 2 * (6 + 4 + 2) * kMiB);
  EXPECT_EQ(g_registered, 1) << "six were split";
}

TEST_F(MemorySplitTest, ADeviceThatIsFullForAMomentIsAskedAgain) {
  Window chunk = Grant(16 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, chunk.base, kPage, 1));
  *At(chunk.base) = 5;
  EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base + kPage, 14 * kMiB));
  g_refusals = 3;
  EXPECT_EQ(memory_.SplitChunks(0, kContext, slabs_).result, CUDA_SUCCESS);
  EXPECT_EQ(*At(chunk.base), 5);
  Window other = Grant(16 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, other.base, kPage, 1));
  EXPECT_TRUE(memory_.ReturnCredit(0, other.base + kPage, 14 * kMiB));
  g_refusals = 1 << 30;
  EXPECT_EQ(memory_.SplitChunks(0, kContext, slabs_).result, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(MemorySplitTest, APartOfAPageStays) {
  Window chunk = Grant(8 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, chunk.base, 512, 1));
  EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base + 512, 8 * kMiB - 512));
  EXPECT_EQ(memory_.SplitChunks(0, kContext, slabs_).bytes, 6 * kMiB);
  EXPECT_EQ(ledger_.charged, kPage);
  EXPECT_EQ(memory_.SplitChunks(0, kContext, slabs_).bytes, 0u) << "once is enough";
  memory_.FreeContext(1);
  EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base, 512));
  EXPECT_EQ(ledger_.charged, 0u);
  EXPECT_EQ(g_created, 0u);
}

TEST_F(MemorySplitTest, AllThatIsFreeCanBeHadAfterAnyHistory) {
  std::mt19937 random(3);
  struct Held {
    uint64_t base, bytes;
    uint8_t mark;
  };
  for (int run = 0; run < 300; ++run) {
    std::vector<Held> held;
    uint64_t held_bytes = 0;
    for (int step = 0; step < 20; ++step) {
      if (random() % 3 == 0 && !held.empty()) {
        size_t which = random() % held.size();
        DeviceMemory::Freed freed;
        EXPECT_EQ(*At(held[which].base), held[which].mark);
        ASSERT_TRUE(memory_.Free(held[which].base, &freed));
        ASSERT_TRUE(memory_.ReturnCredit(0, held[which].base, held[which].bytes));
        held_bytes -= held[which].bytes;
        held.erase(held.begin() + static_cast<long>(which));
        continue;
      }
      uint64_t pages = random() % 12 + 1, used = random() % pages + 1;
      Window range = Grant(pages * kPage);
      if (last_ != CUDA_SUCCESS) continue;
      uint64_t skip = (random() % (pages - used + 1)) * kPage;
      if (skip != 0) ASSERT_TRUE(memory_.ReturnCredit(0, range.base, skip));
      uint64_t rest = range.bytes - skip - used * kPage;
      if (rest != 0) ASSERT_TRUE(memory_.ReturnCredit(0, range.base + skip + used * kPage, rest));
      ASSERT_TRUE(memory_.Allocate(0, range.base + skip, used * kPage, 1));
      held.push_back({range.base + skip, used * kPage, static_cast<uint8_t>(random())});
      *At(held.back().base) = held.back().mark;
      held_bytes += used * kPage;
    }
    EXPECT_EQ(memory_.SplitChunks(0, kContext, slabs_).result, CUDA_SUCCESS);
    EXPECT_EQ(ledger_.charged, held_bytes);
    EXPECT_EQ(g_created, held_bytes);
    uint64_t free = ledger_.quota - held_bytes;
    Window all;
    if (free != 0) {
      all = Grant(free);
      ASSERT_EQ(all.bytes, free);
      ASSERT_TRUE(memory_.ReturnCredit(0, all.base, all.bytes));
    }
    for (const Held& one : held) {
      EXPECT_EQ(*At(one.base), one.mark);
      DeviceMemory::Freed freed;
      ASSERT_TRUE(memory_.Free(one.base, &freed));
      ASSERT_TRUE(memory_.ReturnCredit(0, one.base, one.bytes));
    }
    ASSERT_EQ(ledger_.charged, 0u);
  }
  EXPECT_LE(g_most, ledger_.quota);
}

// ---- the standstill

class Ground final : public SwapGround {
 public:
  explicit Ground(DeviceMemory& memory) : memory_(memory) {}
  void FenceAll(std::function<void()> done) override {
    if (!stuck.load()) return done();
    std::lock_guard lock(mutex_);
    done_ = std::move(done);
    fenced_.notify_all();
  }
  bool Quiet() override { return quiet.load(); }
  void AwaitFence() {
    std::unique_lock lock(mutex_);
    fenced_.wait(lock, [this] { return done_ != nullptr; });
  }
  // The stuck work ends.
  void Reach() {
    std::lock_guard lock(mutex_);
    done_();
  }
  std::map<int, CUcontext> Contexts() override { return {{0, kContext}}; }
  DeviceMemory& SwappedMemory() override { return memory_; }
  std::atomic<bool> stuck{false}, quiet{true};

 private:
  std::mutex mutex_;
  std::condition_variable fenced_;
  std::function<void()> done_;
  DeviceMemory& memory_;
};

class StandstillTest : public MemorySplitTest {
 protected:
  explicit StandstillTest(bool swaps = false) : ground_(memory_) {
    SwapHooks hooks;
    hooks.tell = [this](const SwapReport& message) {
      std::lock_guard lock(mutex_);
      told_.push_back(message);
    };
    hooks.wake = [this] {
      std::lock_guard lock(mutex_);
      woken_ = true;
      wakes_.notify_all();
    };
    hooks.now = [this] { return now_.load(); };
    hooks.end = [](const Status&) { ADD_FAILURE() << "memory was lost"; };
    swap_.emplace(api_, 1, swaps, std::move(hooks));
    issue_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!ends_) {
        wakes_.wait_for(lock, std::chrono::milliseconds(1), [this] { return woken_ || ends_; });
        woken_ = false;
        lock.unlock();
        swap_->Serve(ground_);
        rounds_.fetch_add(1);
        lock.lock();
      }
    });
    Window chunk = Grant(16 * kMiB);
    EXPECT_TRUE(memory_.Allocate(0, chunk.base, kPage, 1));
    EXPECT_TRUE(memory_.ReturnCredit(0, chunk.base + kPage, 14 * kMiB));
  }
  ~StandstillTest() override {
    End();
    swap_->Stop();
  }
  void End() {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
      wakes_.notify_all();
    }
    if (issue_.joinable()) issue_.join();
  }
  // The issue thread has looked so many times, all of it from now on.
  void AwaitRounds(int count) {
    const int until = rounds_.load() + count;
    while (rounds_.load() < until) std::this_thread::yield();
  }
  template <typename M>
  int CountOf() {
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(told_.begin(), told_.end(), [](const SwapReport& each) {
      return std::holds_alternative<M>(each);
    }));
  }
  Ground ground_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool woken_ = false, ends_ = false;
  std::vector<SwapReport> told_;
  std::atomic<quota::Ns> now_{1};
  std::atomic<int> rounds_{0};
  std::optional<MemorySwap> swap_;
  std::thread issue_;
};

TEST_F(StandstillTest, SplitsOnceAllStandsStill) {
  EXPECT_TRUE(swap_->Admit());
  EXPECT_TRUE(swap_->Split(0));
  EXPECT_EQ(ledger_.charged, kPage);
  EXPECT_TRUE(swap_->Admit());
  EXPECT_FALSE(swap_->Split(0)) << "nothing came of it";
  EXPECT_EQ(CountOf<control::Idle>(), 0) << "nobody asked for it to leave";
}

// Its work may take long, on a machine with much else to do: what is free is not refused for that.
TEST_F(StandstillTest, LongWorkIsWaitedFor) {
  ground_.stuck.store(true);
  std::atomic<int> split{-1};
  std::thread helper([&] { split.store(swap_->Split(0) ? 1 : 0); });
  while (swap_->waiting_splits() == 0) std::this_thread::yield();
  ground_.AwaitFence();
  now_.fetch_add(20 * quota::kSecond);
  AwaitRounds(2);
  EXPECT_EQ(split.load(), -1) << "it waits";
  ground_.Reach();
  helper.join();
  EXPECT_EQ(split.load(), 1);
  EXPECT_EQ(ledger_.charged, kPage);
}

TEST_F(StandstillTest, WorkThatMayWaitForARecordIsNot) {
  ground_.stuck.store(true);
  std::atomic<int> split{-1};
  std::thread helper([&] { split.store(swap_->Split(0) ? 1 : 0); });
  ground_.AwaitFence();
  now_.fetch_add(20 * quota::kSecond);
  EXPECT_FALSE(swap_->Admit());
  now_.fetch_add(2 * quota::kSecond);
  helper.join();
  EXPECT_EQ(split.load(), 0);
  EXPECT_TRUE(swap_->Admit());
  EXPECT_EQ(ledger_.charged, 16 * kMiB);
}

TEST_F(StandstillTest, WorkThatDoesNotEndIsNotWaitedForForEver) {
  ground_.stuck.store(true);
  std::atomic<int> split{-1};
  std::thread helper([&] { split.store(swap_->Split(0) ? 1 : 0); });
  while (swap_->Admit()) std::this_thread::yield();
  EXPECT_EQ(swap_->waiting_splits(), 1);
  EXPECT_FALSE(swap_->AdmitReturn());
  while (split.load() < 0) {  // however late the issue thread looks first
    now_.fetch_add(quota::kSecond);
    std::this_thread::yield();
  }
  helper.join();
  EXPECT_EQ(split.load(), 0);
  EXPECT_TRUE(swap_->Admit());
  EXPECT_EQ(ledger_.charged, 16 * kMiB);
}

TEST_F(StandstillTest, WhatIsAskedMeanwhileComesAfterwards) {
  ground_.stuck.store(true);
  std::thread helper([&] { EXPECT_FALSE(swap_->Split(0)); });
  while (swap_->Admit()) std::this_thread::yield();
  swap_->OnMessage(control::SwapOut{.patience_ns = quota::kSecond});
  EXPECT_EQ(CountOf<control::SwapDone>(), 0);
  while (CountOf<control::SwapDone>() == 0) {
    now_.fetch_add(quota::kSecond);
    std::this_thread::yield();
  }
  helper.join();
  EXPECT_EQ(CountOf<control::SwapDone>(), 1) << "it stayed: its work did not end";
}

class SwappedStandstillTest : public StandstillTest {
 protected:
  SwappedStandstillTest() : StandstillTest(/*swaps=*/true) {}
};

// Whether the session idles is found out by a fence as well. By that of a split all work may be
// done already, though nobody has told of the first yet.
TEST_F(SwappedStandstillTest, AnEarlierFenceMayBeToldOfLater) {
  ground_.stuck.store(true);
  AwaitRounds(2);
  now_.fetch_add(quota::kSecond);
  ground_.AwaitFence();
  ground_.stuck.store(false);
  ground_.quiet.store(false);
  std::atomic<int> split{-1};
  std::thread helper([&] { split.store(swap_->Split(0) ? 1 : 0); });
  while (swap_->waiting_splits() == 0) std::this_thread::yield();
  AwaitRounds(3);
  ground_.Reach();
  ground_.quiet.store(true);
  AwaitRounds(3);
  while (split.load() < 0) {
    now_.fetch_add(quota::kSecond);
    AwaitRounds(3);
  }
  helper.join();
  EXPECT_EQ(split.load(), 1);
  EXPECT_EQ(ledger_.charged, kPage);
}

TEST_F(StandstillTest, TheEndOfTheSessionEndsTheWait) {
  ground_.stuck.store(true);
  std::thread helper([&] { EXPECT_FALSE(swap_->Split(0)); });
  while (swap_->Admit()) std::this_thread::yield();
  End();
  swap_->Stop();
  helper.join();
  EXPECT_FALSE(swap_->Split(0)) << "nor does it begin again";
}

}  // namespace
}  // namespace farcall::server
