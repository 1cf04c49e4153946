// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

// A host function that holds its stream until the test lets go.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;

  static void Hold(void* raw) {
    auto* gate = static_cast<Gate*>(raw);
    std::unique_lock lock(gate->mutex);
    gate->opened.wait(lock, [&] { return gate->open; });
  }
  void Open() {
    std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
};

class StreamTest : public DriverTest {
 protected:
  CUstream Create(unsigned flags = CU_STREAM_DEFAULT) {
    CUstream stream = nullptr;
    EXPECT_OK(CU(cuStreamCreate)(&stream, flags));
    return stream;
  }
};

TEST_F(StreamTest, WorkIsAsynchronousAndInOrder) {
  Gate gate;
  const CUstream stream = Create(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr data = Allocate(4);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 1, 1));
  ASSERT_OK(CU(cuCtxSynchronize)());
  ASSERT_OK(CU(cuLaunchHostFunc)(stream, &Gate::Hold, &gate));
  ASSERT_OK(CU(cuMemsetD32Async)(data, 2, 1, stream));
  ASSERT_OK(CU(cuMemsetD32Async)(data, 3, 1, stream));
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(*reinterpret_cast<volatile int*>(data), 1);
  gate.Open();
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(*reinterpret_cast<volatile int*>(data), 3);
  EXPECT_OK(CU(cuStreamQuery)(stream));
}

TEST_F(StreamTest, DefaultStreamWaitsForBlockingStreamsAndHoldsThem) {
  Gate gate;
  const CUstream blocking = Create(), free_stream = Create(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr data = Allocate(12);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0, 3));
  ASSERT_OK(CU(cuCtxSynchronize)());
  ASSERT_OK(CU(cuLaunchHostFunc)(blocking, &Gate::Hold, &gate));
  ASSERT_OK(CU(cuMemsetD32Async)(data, 1, 1, nullptr));          // behind the gate
  ASSERT_OK(CU(cuMemsetD32Async)(data + 4, 1, 1, free_stream));  // not
  ASSERT_OK(CU(cuStreamSynchronize)(free_stream));
  EXPECT_EQ(CU(cuStreamQuery)(nullptr), CUDA_ERROR_NOT_READY);
  const CUstream later = Create();
  ASSERT_OK(CU(cuMemsetD32Async)(data + 8, 1, 1, later));  // behind the default stream
  EXPECT_EQ(CU(cuStreamQuery)(later), CUDA_ERROR_NOT_READY);
  const auto* words = reinterpret_cast<volatile int*>(data);
  EXPECT_EQ(words[0], 0);
  EXPECT_EQ(words[1], 1);
  EXPECT_EQ(words[2], 0);
  gate.Open();
  ASSERT_OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(words[0], 1);
  EXPECT_EQ(words[2], 1);
}

TEST_F(StreamTest, EventsOrderStreamsAndMeasureTime) {
  Gate gate;
  const CUstream a = Create(CU_STREAM_NON_BLOCKING), b = Create(CU_STREAM_NON_BLOCKING);
  CUevent start = nullptr, end = nullptr;
  ASSERT_OK(CU(cuEventCreate)(&start, CU_EVENT_DEFAULT));
  ASSERT_OK(CU(cuEventCreate)(&end, CU_EVENT_DEFAULT));
  const CUdeviceptr data = Allocate(4);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0, 1));
  ASSERT_OK(CU(cuEventRecord)(start, a));
  ASSERT_OK(CU(cuLaunchHostFunc)(a, &Gate::Hold, &gate));
  ASSERT_OK(CU(cuEventRecord)(end, a));
  ASSERT_OK(CU(cuStreamWaitEvent)(b, end, 0));
  ASSERT_OK(CU(cuMemsetD32Async)(data, 4, 1, b));
  EXPECT_EQ(CU(cuEventQuery)(end), CUDA_ERROR_NOT_READY);
  float milliseconds = -1;
  EXPECT_EQ(CU(cuEventElapsedTime_v2)(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(*reinterpret_cast<volatile int*>(data), 0);
  gate.Open();
  ASSERT_OK(CU(cuStreamSynchronize)(b));
  EXPECT_EQ(*reinterpret_cast<volatile int*>(data), 4);
  ASSERT_OK(CU(cuEventElapsedTime_v2)(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0.0f);
  EXPECT_OK(CU(cuEventDestroy_v2)(start));
  EXPECT_EQ(CU(cuEventQuery)(start), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, PageableSourcesAreTheCallersAgain) {
  Gate gate;
  const CUstream stream = Create(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr data = Allocate(4);
  ASSERT_OK(CU(cuLaunchHostFunc)(stream, &Gate::Hold, &gate));
  int source = 11, back = 0;
  ASSERT_OK(CU(cuMemcpyHtoDAsync_v2)(data, &source, 4, stream));
  source = 12;
  gate.Open();
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&back, data, 4));
  EXPECT_EQ(back, 11);
}

TEST_F(StreamTest, PerThreadStreamsAreDifferent) {
  unsigned long long mine = 0, same = 0, other = 0;
  ASSERT_OK(CU(cuStreamGetId)(CU_STREAM_PER_THREAD, &mine));
  ASSERT_OK(CU(cuStreamGetId_ptsz)(nullptr, &same));
  std::thread thread([&] {
    EXPECT_OK(CU(cuCtxSetCurrent)(context_));
    EXPECT_OK(CU(cuStreamGetId_ptsz)(nullptr, &other));
  });
  thread.join();
  EXPECT_EQ(mine, same);
  EXPECT_NE(mine, other);
}

TEST_F(StreamTest, AStreamOfAnotherContextCanBeWaitedForButNotLaunchedInto) {
  const CUstream stream = Create();
  const CUdeviceptr data = Allocate(4);
  CUcontext other = nullptr;
  ASSERT_OK(CU(cuCtxCreate_v2)(&other, 0, 1));
  EXPECT_OK(CU(cuStreamQuery)(stream));
  EXPECT_OK(CU(cuMemsetD32Async)(data, 1, 1, stream));
  EXPECT_OK(CU(cuStreamSynchronize)(stream));
  CUmodule module = nullptr;
  if (CU(cuModuleLoadData)(&module, Ptx()) == CUDA_SUCCESS) {
    CUfunction bounded = nullptr;
    ASSERT_OK(CU(cuModuleGetFunction)(&bounded, module, "bounded"));
    EXPECT_EQ(CU(cuLaunchKernel)(bounded, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
  }
  ASSERT_OK(CU(cuCtxDestroy_v2)(other));
  EXPECT_OK(CU(cuStreamDestroy_v2)(stream));
}

std::atomic<int> g_inside{-1};

TEST_F(StreamTest, HostFunctionsMayNotCallCuda) {
  const auto call = [](void*) {
    size_t free_bytes = 0, total = 0;
    g_inside = CU(cuMemGetInfo_v2)(&free_bytes, &total);
  };
  ASSERT_OK(CU(cuLaunchHostFunc)(nullptr, call, nullptr));
  ASSERT_OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(g_inside.load(), CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(StreamTest, DestroyedStreamsFinishTheirWork) {
  Gate gate;
  const CUstream stream = Create();
  const CUdeviceptr data = Allocate(4);
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0, 1));
  ASSERT_OK(CU(cuLaunchHostFunc)(stream, &Gate::Hold, &gate));
  ASSERT_OK(CU(cuMemsetD32Async)(data, 8, 1, stream));
  ASSERT_OK(CU(cuStreamDestroy_v2)(stream));
  gate.Open();
  int value = 0;
  ASSERT_OK(CU(cuMemcpyDtoH_v2)(&value, data, 4));
  EXPECT_EQ(value, 8);
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, ValuesInMemoryOrderStreams) {
  const CUstream a = Create(CU_STREAM_NON_BLOCKING), b = Create(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr flag = Allocate(8), data = Allocate(4);
  ASSERT_OK(CU(cuMemsetD32_v2)(flag, 0, 2));
  ASSERT_OK(CU(cuMemsetD32_v2)(data, 0, 1));
  ASSERT_OK(CU(cuCtxSynchronize)());
  ASSERT_OK(CU(cuStreamWaitValue32_v2)(a, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_OK(CU(cuMemsetD32Async)(data, 6, 1, a));
  EXPECT_EQ(CU(cuStreamQuery)(a), CUDA_ERROR_NOT_READY);
  ASSERT_OK(CU(cuStreamWriteValue32_v2)(b, flag, 5, 0));
  ASSERT_OK(CU(cuStreamSynchronize)(a));
  EXPECT_EQ(*reinterpret_cast<volatile int*>(data), 6);
}

}  // namespace
}  // namespace farcall::cpu_device
