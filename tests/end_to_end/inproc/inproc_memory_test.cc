// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels reach, and pools, from several threads while the link is cut. Mapped and
// managed memory lie at one address on both sides: those need the server in a process of its own.
#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "tests/end_to_end/inproc/inproc_process.h"

namespace farcall::inproc_test {
namespace {

#define NEEDS_A_SERVER_APART() \
  if (!Process::is_apart) GTEST_SKIP() << "one process has one memory at an address: --apart"

constexpr uint32_t kRounds = 10;

// Words that the device has at `device` and the host at `host`, written by both in turn.
struct Words {
  uint32_t* host = nullptr;
  CUdeviceptr device = 0;
  size_t count = 0;
};

// On both sides of what goes by the lanes. The CPU device checks each access to such memory by
// itself, which a sanitizer makes dear: no more than is needed.
size_t WordsOf(int thread) {
  constexpr size_t kWords[] = {300, 2'000, 18'000, 24'000};
  return kWords[static_cast<size_t>(thread) % std::size(kWords)];
}

// Host writes, kernel, host reads and writes a part, kernel, again and again; each wait is of
// another kind.
void TakeTurns(const Words& words, int thread, Cutter* cutter) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  auto count = static_cast<uint32_t>(words.count);
  for (uint32_t round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    uint32_t value = 1000 * static_cast<uint32_t>(thread) + round;
    std::fill(words.host, words.host + count, value);
    ASSERT_OK(LaunchAdd(Process::add, words.device, count, 3, stream));
    cutter->MayCut();
    ASSERT_OK(LaunchAdd(Process::add, words.device, count / 2, 4, stream));
    ASSERT_OK(cuMemsetD32Async(words.device + (count - 2) * 4, 77, 1, stream));
    ASSERT_OK(cuEventRecord(event, stream));
    ASSERT_OK(round % 2 == 0 ? cuStreamSynchronize(stream) : cuEventSynchronize(event));
    ASSERT_EQ(words.host[0], value + 7);
    ASSERT_EQ(std::count(words.host, words.host + count, value + 3), count - count / 2 - 1);
    ASSERT_EQ(words.host[count - 2], 77u);
    words.host[1] = 5;  // one word, amid what the device wrote
    ASSERT_OK(LaunchAdd(Process::add, words.device, count, 1, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    ASSERT_EQ(words.host[1], 6u);
    ASSERT_EQ(words.host[0], value + 8);
    ASSERT_EQ(words.host[count - 1], value + 4);
  }
  ASSERT_OK(cuEventDestroy_v2(event));
  ASSERT_OK(cuStreamDestroy_v2(stream));
}

TEST(InprocMemory, CopiesGoByTheAddressWhateverTheyAreCalled) {
  const std::vector<uint32_t> sent(64, 9);
  std::vector<uint32_t> got(64);
  const size_t bytes = sent.size() * sizeof(uint32_t);
  std::array<CUdeviceptr, 5> on_device{};
  for (CUdeviceptr& memory : on_device) ASSERT_OK(cuMemAlloc_v2(&memory, bytes));
  auto as_host = [&](int i) { return reinterpret_cast<void*>(on_device[i]); };
  ASSERT_OK(cuMemcpyHtoD_v2(on_device[0], sent.data(), bytes));
  ASSERT_OK(cuMemcpyHtoD_v2(on_device[1], as_host(0), bytes));
  ASSERT_OK(cuMemcpyHtoDAsync_v2(on_device[2], as_host(1), bytes, nullptr));
  ASSERT_OK(cuMemcpyDtoH_v2(as_host(3), on_device[2], bytes));
  ASSERT_OK(cuMemcpyDtoHAsync_v2(as_host(4), on_device[3], bytes, nullptr));
  ASSERT_OK(cuMemcpyDtoH_v2(got.data(), on_device[4], bytes));
  EXPECT_EQ(got, sent);
  for (CUdeviceptr memory : on_device) ASSERT_OK(cuMemFree_v2(memory));
}

TEST(InprocMemory, MappedMemoryGoesUpAndDownWhileTheLinkIsCut) {
  NEEDS_A_SERVER_APART();
  Cutter cutter(7);
  RunThreads([&](int thread) {
    Words words{nullptr, 0, WordsOf(thread)};
    void* memory = nullptr;
    ASSERT_OK(cuMemHostAlloc(&memory, words.count * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    words.host = static_cast<uint32_t*>(memory);
    ASSERT_OK(cuMemHostGetDevicePointer_v2(&words.device, memory, 0));
    TakeTurns(words, thread, &cutter);
    ASSERT_OK(cuMemFreeHost(memory));
  });
}

TEST(InprocMemory, RegisteredMemoryComesAndGoesWhileOthersUseTheirs) {
  NEEDS_A_SERVER_APART();
  Cutter cutter(17);
  RunThreads([&](int thread) {
    for (int again = 0; again < 3 && !::testing::Test::HasFailure(); ++again) {
      Words words{nullptr, 0, WordsOf(thread + again)};
      std::vector<uint32_t> memory(words.count);
      words.host = memory.data();
      ASSERT_OK(cuMemHostRegister_v2(memory.data(), words.count * 4, CU_MEMHOSTREGISTER_DEVICEMAP));
      ASSERT_OK(cuMemHostGetDevicePointer_v2(&words.device, memory.data(), 0));
      TakeTurns(words, thread, &cutter);
      ASSERT_OK(cuMemHostUnregister(memory.data()));
    }
  });
}

// The host may touch managed memory while other threads' kernels run if it is attached to a stream.
TEST(InprocMemory, AttachedManagedMemoryIsEachThreadsOwn) {
  NEEDS_A_SERVER_APART();
  Cutter cutter(9);
  RunThreads([&](int thread) {
    Words words{nullptr, 0, WordsOf(thread)};
    CUstream own = nullptr;
    ASSERT_OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuMemAllocManaged(&words.device, words.count * 4, CU_MEM_ATTACH_HOST));
    ASSERT_OK(cuStreamAttachMemAsync(own, words.device, 0, CU_MEM_ATTACH_SINGLE));
    words.host = reinterpret_cast<uint32_t*>(words.device);
    TakeTurns(words, thread, &cutter);
    ASSERT_OK(cuStreamDestroy_v2(own));
    ASSERT_OK(cuMemFree_v2(words.device));
  });
}

TEST(InprocMemory, ThreadsWriteTheirPartsOfOneMappedAllocation) {
  NEEDS_A_SERVER_APART();
  constexpr size_t kPart = 3'001;  // parts share pages, and words of the masks
  void* memory = nullptr;
  CUdeviceptr device = 0;
  ASSERT_OK(cuMemHostAlloc(&memory, kThreads * kPart * 4, CU_MEMHOSTALLOC_DEVICEMAP));
  ASSERT_OK(cuMemHostGetDevicePointer_v2(&device, memory, 0));
  Cutter cutter(8);
  RunThreads([&](int thread) {
    size_t first = static_cast<size_t>(thread) * kPart;
    TakeTurns({static_cast<uint32_t*>(memory) + first, device + first * 4, kPart}, thread, &cutter);
  });
  EXPECT_OK(cuMemFreeHost(memory));
}

// Memory of the thread's own pool, of another and of the device's, freed on a second stream.
void UsePools(CUmemoryPool shared, int thread, uint32_t round) {
  CUmemoryPool own = nullptr, device_pool = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  ASSERT_OK(cuMemPoolCreate(&own, &properties));
  ASSERT_OK(cuDeviceGetDefaultMemPool(&device_pool, 0));
  CUstream stream = nullptr, second = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  constexpr uint32_t kCount = 20'000;
  CUdeviceptr at[3] = {};
  ASSERT_OK(cuMemAllocFromPoolAsync(&at[0], kCount * 4, own, stream));
  ASSERT_OK(cuMemAllocFromPoolAsync(&at[1], kCount * 4, shared, stream));
  ASSERT_OK(cuMemAllocFromPoolAsync(&at[2], kCount * 4, device_pool, stream));
  uint32_t value = 100 * static_cast<uint32_t>(thread) + round;
  for (CUdeviceptr memory : at) {
    ASSERT_OK(cuMemsetD32Async(memory, value, kCount, stream));
    ASSERT_OK(LaunchAdd(Process::add, memory, kCount, 1, stream));
  }
  ASSERT_OK(cuEventRecord(event, stream));
  ASSERT_OK(cuStreamWaitEvent(second, event, 0));
  std::vector<uint32_t> got(kCount);
  for (CUdeviceptr memory : at) {
    ASSERT_OK(cuMemcpyDtoHAsync_v2(got.data(), memory, kCount * 4, second));
    ASSERT_OK(cuMemFreeAsync(memory, second));
    ASSERT_OK(cuMemFreeAsync(0, second));
    ASSERT_OK(cuStreamSynchronize(second));
    ASSERT_EQ(std::count(got.begin(), got.end(), value + 1), ptrdiff_t{kCount});
  }
  uint64_t used = 1;
  ASSERT_OK(cuMemPoolTrimTo(own, 0));
  ASSERT_OK(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  ASSERT_EQ(used, 0u);
  ASSERT_OK(cuEventDestroy_v2(event));
  ASSERT_OK(cuStreamDestroy_v2(stream));
  ASSERT_OK(cuStreamDestroy_v2(second));
  ASSERT_OK(cuMemPoolDestroy(own));
}

TEST(InprocMemory, PoolsAreMadeUsedAndTrimmedWhileTheLinkIsCut) {
  CUmemoryPool shared = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  ASSERT_OK(cuMemPoolCreate(&shared, &properties));
  Cutter cutter(13);
  RunThreads([&](int thread) {
    for (uint32_t round = 0; round < 16 && !::testing::Test::HasFailure(); ++round) {
      UsePools(shared, thread, round);
      cutter.MayCut();
    }
  });
  EXPECT_OK(cuMemPoolDestroy(shared));
}

// What was waited for is not waited for again; another thread's work goes on meanwhile.
TEST(InprocMemory, SettledWaitsCostNothingAndMissNothing) {
  RunThreads([](int thread) {
    constexpr uint32_t kCount = 1'000;
    CUstream stream = nullptr;
    CUdeviceptr at = 0;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuMemAlloc_v2(&at, kCount * 4));
    for (uint32_t round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
      std::vector<uint32_t> sent(kCount, round), got(kCount, 0);
      ASSERT_OK(cuMemcpyHtoDAsync_v2(at, sent.data(), kCount * 4, stream));
      ASSERT_OK(cuStreamSynchronize(stream));
      ASSERT_OK(cuStreamSynchronize(stream));
      if (round % 4 == static_cast<uint32_t>(thread)) {
        ASSERT_OK(cuCtxSynchronize());
        ASSERT_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
      }
      ASSERT_OK(LaunchAdd(Process::add, at, kCount, 2, stream));
      ASSERT_OK(cuMemcpyDtoHAsync_v2(got.data(), at, kCount * 4, stream));
      ASSERT_OK(cuStreamSynchronize(stream));
      ASSERT_EQ(std::count(got.begin(), got.end(), round + 2), ptrdiff_t{kCount});
    }
    ASSERT_OK(cuMemFree_v2(at));
    ASSERT_OK(cuStreamDestroy_v2(stream));
  });
}

}  // namespace
}  // namespace farcall::inproc_test
