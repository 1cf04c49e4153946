// SPDX-License-Identifier: Apache-2.0
// What the device counts as its time: the union of what runs on it, by the clock that its kernels
// read, whatever part of the device they fill.
#include "cuda-abi/device_time.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "tests/cpu_device/driver_fixture.h"

namespace farcall::cpu_device {
namespace {

// spin(uint64_t* span, uint32_t rounds): one thread; {begin, end} by the device's clock.
// hold(uint64_t* span, uint32_t* go): until *go is not 0; the same.
constexpr const char* kTimed = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 span, .param .u32 rounds) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [span]; ld.param.u32 %r1, [rounds];
  mov.u64 %rd2, %globaltimer; st.global.u64 [%rd1], %rd2;
  mov.u32 %r2, 0;
LOOP:
  ld.volatile.global.u32 %r3, [%rd1]; add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra LOOP;
  mov.u64 %rd2, %globaltimer; st.global.u64 [%rd1+8], %rd2;
  ret;
}
.visible .entry hold(.param .u64 span, .param .u64 go) {
  .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [span]; ld.param.u64 %rd3, [go];
  mov.u64 %rd2, %globaltimer; st.global.u64 [%rd1], %rd2;
LOOP:
  ld.volatile.global.u32 %r1, [%rd3];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra LOOP;
  mov.u64 %rd2, %globaltimer; st.global.u64 [%rd1+8], %rd2;
  ret;
}
)";

uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

class DeviceTimeTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CUuuid id;
    memcpy(id.bytes, cuda_abi::kDeviceTimeTable, sizeof(id.bytes));
    const void* found = nullptr;
    ASSERT_OK(CU(cuGetExportTable)(&found, &id));
    table_ = static_cast<const cuda_abi::DeviceTimeTable*>(found);
    ASSERT_OK(CU(cuModuleLoadData)(&module_, kTimed));
    span_ = Allocate(2 * sizeof(uint64_t));
  }

  uint64_t Used() const { return table_->used_ns(0); }
  CUstream Create() {
    CUstream stream = nullptr;
    EXPECT_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }
  template <typename T>
  void Launch(const char* name, CUstream stream, T argument) {
    CUfunction kernel = nullptr;
    ASSERT_OK(CU(cuModuleGetFunction)(&kernel, module_, name));
    void* arguments[] = {&span_, &argument};
    ASSERT_OK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  }
  // What the kernel that ran last took, by itself. Device memory is memory of this process.
  uint64_t Span() const {
    const auto* span = reinterpret_cast<const volatile uint64_t*>(span_);
    return span[1] - span[0];
  }

  const cuda_abi::DeviceTimeTable* table_ = nullptr;
  CUmodule module_ = nullptr;
  CUdeviceptr span_ = 0;
};

TEST_F(DeviceTimeTest, AGridOfOneBlockTakesTheDeviceAsLongAsItRuns) {
  const CUstream stream = Create();
  Launch("spin", stream, uint32_t{1});  // it is compiled
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
  const uint64_t used = Used(), begun = Now();
  Launch("spin", stream, uint32_t{20'000'000});
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
  const uint64_t passed = Now() - begun, counted = Used() - used;
  EXPECT_GE(counted, Span());
  EXPECT_LE(counted, passed);
}

TEST_F(DeviceTimeTest, WhatRunsCountsBeforeItEnds) {
  const CUstream stream = Create();
  const CUdeviceptr go = Allocate(4);
  auto* word = reinterpret_cast<volatile uint32_t*>(go);
  *word = 0;
  reinterpret_cast<volatile uint64_t*>(span_)[0] = 0;
  Launch("hold", stream, go);
  while (reinterpret_cast<volatile uint64_t*>(span_)[0] == 0) {
  }
  const uint64_t used = Used(), begun = Now();
  while (Now() - begun < 1'000'000) {
  }
  EXPECT_GE(Used() - used, 1'000'000u);
  *word = 1;
  ASSERT_OK(CU(cuStreamSynchronize)(stream));
}

TEST_F(DeviceTimeTest, WhatOverlapsCountsOnce) {
  constexpr size_t kBytes = 32 << 20;
  const CUstream kernels = Create(), copies = Create();
  const CUdeviceptr go = Allocate(4), from = Allocate(kBytes), to = Allocate(kBytes);
  ASSERT_OK(CU(cuMemsetD8_v2)(from, 1, kBytes));
  ASSERT_OK(CU(cuMemsetD8_v2)(to, 1, kBytes));
  auto* word = reinterpret_cast<volatile uint32_t*>(go);
  *word = 0;
  reinterpret_cast<volatile uint64_t*>(span_)[0] = 0;
  ASSERT_OK(CU(cuCtxSynchronize)());
  const uint64_t used = Used(), begun = Now();
  Launch("hold", kernels, go);
  for (int i = 0; i < 16; ++i) ASSERT_OK(CU(cuMemcpyDtoDAsync_v2)(to, from, kBytes, copies));
  ASSERT_OK(CU(cuStreamSynchronize)(copies));
  while (reinterpret_cast<volatile uint64_t*>(span_)[0] == 0) {
  }
  *word = 1;
  ASSERT_OK(CU(cuStreamSynchronize)(kernels));
  const uint64_t passed = Now() - begun, counted = Used() - used;
  EXPECT_GE(counted, Span());
  EXPECT_LE(counted, passed);
}

TEST_F(DeviceTimeTest, WaitingIsNoWork) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false, open = false;
    static void Hold(void* raw) {
      auto* gate = static_cast<Gate*>(raw);
      std::unique_lock lock(gate->mutex);
      gate->entered = true;
      gate->changed.notify_all();
      gate->changed.wait(lock, [&] { return gate->open; });
    }
  } gate;
  const CUstream host = Create(), waits = Create(), after = Create();
  CUevent event = nullptr;
  ASSERT_OK(CU(cuEventCreate)(&event, CU_EVENT_DEFAULT));
  const CUdeviceptr flag = Allocate(4);
  auto* word = reinterpret_cast<volatile uint32_t*>(flag);
  *word = 0;
  ASSERT_OK(CU(cuCtxSynchronize)());
  const uint64_t used = Used();
  ASSERT_OK(CU(cuLaunchHostFunc)(host, &Gate::Hold, &gate));
  ASSERT_OK(CU(cuStreamWaitValue32_v2)(waits, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_OK(CU(cuEventRecord)(event, waits));
  ASSERT_OK(CU(cuStreamWaitEvent)(after, event, 0));
  {
    std::unique_lock lock(gate.mutex);
    gate.changed.wait(lock, [&] { return gate.entered; });
  }
  EXPECT_EQ(Used(), used) << "while all wait";
  *word = 1;
  ASSERT_OK(CU(cuStreamSynchronize)(after));
  {
    std::lock_guard lock(gate.mutex);
    gate.open = true;
    gate.changed.notify_all();
  }
  ASSERT_OK(CU(cuStreamSynchronize)(host));
  EXPECT_EQ(Used(), used);
}

}  // namespace
}  // namespace farcall::cpu_device
