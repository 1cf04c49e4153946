// SPDX-License-Identifier: Apache-2.0
// Uploads that are read after the call has returned: from page-locked memory, lent to the link
// until the sockets took it, or not read before the stream's own host function wrote it. And events
// that another thread polls, which are told of as they complete.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/end_to_end/inproc/inproc_process.h"

namespace farcall::inproc_test {
namespace {

// Page-locked words and as many on the device, with a stream and an event of one's own.
class Lane {
 public:
  explicit Lane(size_t words) : words_(words) {
    void* memory = nullptr;
    EXPECT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
    EXPECT_OK(cuMemAllocHost_v2(&memory, words * 4));
    EXPECT_OK(cuMemAlloc_v2(&at_, words * 4));
    source_ = static_cast<uint32_t*>(memory);
  }
  ~Lane() {
    EXPECT_OK(cuMemFree_v2(at_));
    EXPECT_OK(cuMemFreeHost(source_));
    EXPECT_OK(cuEventDestroy_v2(event_));
    EXPECT_OK(cuStreamDestroy_v2(stream_));
  }

  void Fill(uint32_t value) { std::fill(source_, source_ + words_, value); }
  CUresult Upload() { return cuMemcpyHtoDAsync_v2(at_, source_, words_ * 4, stream_); }
  CUresult Add(uint32_t value) {
    return LaunchAdd(Process::add, at_, static_cast<uint32_t>(words_), value, stream_);
  }
  CUresult AddNothing() { return LaunchAdd(Process::add, at_, 1, 0, stream_); }
  CUresult Record() { return cuEventRecord(event_, stream_); }
  CUstream stream() const { return stream_; }
  CUevent event() const { return event_; }
  // Every word on the device, once the stream is through.
  void ExpectAll(uint32_t value) {
    std::vector<uint32_t> got(words_, 0);
    ASSERT_OK(cuMemcpyDtoHAsync_v2(got.data(), at_, words_ * 4, stream_));
    ASSERT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(std::count(got.begin(), got.end(), value), static_cast<ptrdiff_t>(words_));
  }

 private:
  const size_t words_;
  uint32_t* source_ = nullptr;
  CUdeviceptr at_ = 0;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
};

// Inline, one piece, several pieces.
size_t WordsOf(int round) {
  constexpr size_t kWords[] = {1'000, 24'000, 800'000, 2'300'000};
  return kWords[static_cast<size_t>(round) % std::size(kWords)];
}

void UploadOften(int thread, int rounds, const std::function<void()>& between) {
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    Lane lane(WordsOf(thread + round));
    uint32_t value = static_cast<uint32_t>(100 * thread + round);
    lane.Fill(value);
    ASSERT_OK(lane.Upload());
    between();
    ASSERT_OK(lane.Add(7));
    ASSERT_OK(lane.Record());
    ASSERT_OK(cuEventSynchronize(lane.event()));
    // The copy has completed: its source is the caller's again.
    lane.Fill(0);
    lane.ExpectAll(value + 7);
  }
}

TEST(InprocUploads, PageLockedMemoryIsTheCallersAgainAfterTheEvent) {
  RunThreads([](int thread) { UploadOften(thread, 12, [] {}); });
}

TEST(InprocUploads, PageLockedMemoryIsSentAgainAfterACut) {
  std::atomic<int> uploads{0};
  int before = Process::server->resumes();
  RunThreads([&](int thread) {
    UploadOften(thread, 8, [&] {
      if (uploads.fetch_add(1) % 8 == 0) Process::server->Cut();
    });
  });
  EXPECT_GT(Process::server->resumes(), before);
}

// Freed while the link may still read it: the call has to wait for that.
TEST(InprocUploads, PageLockedMemoryIsFreedRightAfterTheCall) {
  RunThreads([](int) {
    for (int round = 0; round < 8; ++round) {
      Lane lane(WordsOf(round));
      lane.Fill(1);
      ASSERT_OK(lane.Upload());
    }
  });
}

struct Writing {
  Lane* lane;
  uint32_t value;
};

TEST(InprocUploads, AnUploadReadsWhatAHostFunctionBeforeItWrote) {
  RunThreads([](int thread) {
    for (int round = 0; round < 8 && !::testing::Test::HasFailure(); ++round) {
      Lane lane(WordsOf(thread + round));
      lane.Fill(1);
      Writing first = {&lane, static_cast<uint32_t>(10 * thread + round)};
      Writing second = {&lane, first.value + 1000};
      auto write = [](void* raw) {
        auto* writing = static_cast<Writing*>(raw);
        writing->lane->Fill(writing->value);
      };
      ASSERT_OK(cuLaunchHostFunc(lane.stream(), write, &first));
      ASSERT_OK(lane.Upload());
      ASSERT_OK(lane.Add(5));
      ASSERT_OK(lane.Record());
      lane.ExpectAll(first.value + 5);
      // Again, with nobody waiting between the two.
      ASSERT_OK(cuLaunchHostFunc(lane.stream(), write, &first));
      ASSERT_OK(lane.Upload());
      ASSERT_OK(cuLaunchHostFunc(lane.stream(), write, &second));
      ASSERT_OK(lane.Upload());
      lane.ExpectAll(second.value);
    }
  });
}

// Hands an event to a thread that asks for it until it is done, as a framework's allocator does.
class Poller {
 public:
  Poller() : thread_([this] { Run(); }) {}
  ~Poller() {
    stop_ = true;
    thread_.join();
  }
  void Give(CUevent event) { asked_.store(event, std::memory_order_release); }
  bool Done() const { return asked_.load(std::memory_order_acquire) == nullptr; }

 private:
  void Run() {
    EXPECT_OK(cuCtxSetCurrent(Process::context));
    while (!stop_) {
      CUevent event = asked_.load(std::memory_order_acquire);
      CUresult status = event == nullptr ? CUDA_ERROR_NOT_READY : cuEventQuery(event);
      if (status == CUDA_ERROR_NOT_READY) {
        std::this_thread::yield();
        continue;
      }
      EXPECT_OK(status);
      asked_.store(nullptr, std::memory_order_release);
    }
  }
  std::atomic<bool> stop_{false};
  std::atomic<CUevent> asked_{nullptr};
  std::thread thread_;
};

TEST(InprocUploads, AnotherThreadPollsTheEventAndTheSourceIsFreeThen) {
  RunThreads([](int thread) {
    Poller poller;
    for (int round = 0; round < 12 && !::testing::Test::HasFailure(); ++round) {
      Lane lane(WordsOf(thread + round));
      for (uint32_t again = 0; again < 3; ++again) {
        lane.Fill(again + 1);
        ASSERT_OK(lane.Upload());
        ASSERT_OK(lane.Add(again));
        ASSERT_OK(lane.Record());
        poller.Give(lane.event());
        // Batches fill and are sent while the other thread asks.
        for (int launches = 0; !poller.Done(); ++launches) {
          if (launches < 200) ASSERT_OK(lane.AddNothing());
          std::this_thread::yield();
        }
        lane.ExpectAll(2 * again + 1);
      }
    }
  });
}

}  // namespace
}  // namespace farcall::inproc_test
