// SPDX-License-Identifier: Apache-2.0
// Host memory at the client's addresses: what each side wrote reaches the other, byte by byte.
#include "server/mirrors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "proto/host_window.h"

namespace farcall::server {
namespace {

constexpr uint64_t kBase = kHostWindows[0].base + (1u << 20), kBytes = 64 * kHostPageBytes;

class CountingBroker final : public MemoryBroker {
 public:
  Status Charge(int, uint64_t bytes) override {
    if (bytes > 1u << 20) {
      return {Code::kQuotaExceeded, "over"};
    }
    charged += bytes;
    return {};
  }
  void Refund(int, uint64_t bytes) override { charged -= bytes; }
  quota::Usage Query(int) override { return {1u << 20, charged}; }
  uint64_t charged = 0;
};

DriverApi EqualAddresses() {
  DriverApi api;
  api.cuMemHostRegister_v2 = [](void*, size_t, unsigned) { return CUDA_SUCCESS; };
  api.cuMemHostUnregister = [](void*) { return CUDA_SUCCESS; };
  api.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* device, void* host, unsigned) {
    *device = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  };
  return api;
}

class MirrorsTest : public ::testing::Test {
 protected:
  MirrorsTest() : api_(EqualAddresses()), mirrors_(api_, broker_) {
    EXPECT_EQ(mirrors_.Create(kBase, kBytes, -1, &detail_), CUDA_SUCCESS) << detail_;
  }
  static uint8_t* At(uint64_t offset) { return reinterpret_cast<uint8_t*>(kBase + offset); }
  bool Up(uint64_t offset, std::vector<uint8_t> bytes) {
    return mirrors_.Apply(kBase + offset, std::as_bytes(std::span(bytes)));
  }
  struct Run {
    uint64_t offset, bytes;
    std::vector<uint8_t> content;
  };
  std::vector<Run> Down(uint64_t* more = nullptr) {
    Builder out;
    mirrors_.Collect(&out);
    Reader in(out.bytes());
    uint64_t left = in.Get<uint64_t>();
    if (more != nullptr) {
      *more = left;
    }
    std::vector<Run> runs;
    while (in.ok() && in.remaining_bytes() >= 8) {
      Run run;
      run.offset = in.Get<uint64_t>() - kBase;
      run.bytes = in.Get<uint64_t>();
      std::span<const std::byte> content = in.GetBytes();
      run.content.resize(content.size());
      std::memcpy(run.content.data(), content.data(), content.size());
      runs.push_back(run);
    }
    EXPECT_TRUE(in.Done());
    return runs;
  }

  CountingBroker broker_;
  DriverApi api_;
  Mirrors mirrors_;
  std::string detail_;
};

TEST_F(MirrorsTest, TellsWhatTheDeviceWroteOnce) {
  EXPECT_TRUE(Down().empty());
  At(100)[0] = 7;
  At(5 * kHostPageBytes)[1] = 8;
  std::vector<Run> runs = Down();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].offset, 96u) << "whole words";
  EXPECT_EQ(runs[0].content, (std::vector<uint8_t>{0, 0, 0, 0, 7, 0, 0, 0}));
  EXPECT_EQ(runs[1].offset, 5 * kHostPageBytes);
  EXPECT_TRUE(Down().empty());
}

TEST_F(MirrorsTest, KeepsWhatTheDeviceWroteBesideTheHostsBytes) {
  At(8)[4] = 9;                                  // the device's, not told yet
  EXPECT_TRUE(Up(8, {1, 2, 3, 4, 0, 0, 0, 0}));  // the host has not seen it
  EXPECT_EQ(At(8)[0], 1);
  EXPECT_EQ(At(8)[4], 9);
  std::vector<Run> runs = Down();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].content, (std::vector<uint8_t>{1, 2, 3, 4, 9, 0, 0, 0}));
}

TEST_F(MirrorsTest, DoesNotSendBackWhatCameUp) {
  EXPECT_TRUE(Up(0, std::vector<uint8_t>(2 * kHostPageBytes, 3)));
  EXPECT_EQ(At(kHostPageBytes)[0], 3);
  EXPECT_TRUE(Down().empty());
}

TEST_F(MirrorsTest, AppliesRunsAndRefusesLies) {
  Builder runs;
  runs.Put<uint64_t>(kBase + 16);
  runs.PutBytes("ab", 2);
  EXPECT_TRUE(mirrors_.ApplyRuns(runs.bytes()));
  EXPECT_EQ(At(16)[1], 'b');
  Builder outside;
  outside.Put<uint64_t>(kBase + kBytes - 1);
  outside.PutBytes("ab", 2);
  EXPECT_FALSE(mirrors_.ApplyRuns(outside.bytes()));
  Builder cut;
  cut.Put<uint64_t>(kBase);
  cut.Put<uint64_t>(1000);
  EXPECT_FALSE(mirrors_.ApplyRuns(cut.bytes()));
  EXPECT_FALSE(Up(kBytes - 1, {1, 2}));
  EXPECT_FALSE(mirrors_.Remove(kBase + kHostPageBytes));
}

TEST_F(MirrorsTest, TellsOfLargeChangesWithoutTheirBytes) {
  uint64_t base = kBase + (1u << 30), bytes = 4u << 20;
  ASSERT_EQ(mirrors_.Create(base, bytes, -1, &detail_), CUDA_SUCCESS);
  std::memset(reinterpret_cast<void*>(base), 5, bytes);
  uint64_t inline_bytes = 0, large_bytes = 0;
  for (const Run& run : Down()) {
    (run.content.empty() ? large_bytes : inline_bytes) += run.bytes;
  }
  EXPECT_EQ(inline_bytes + large_bytes, bytes);
  EXPECT_LE(inline_bytes, 512u << 10);
  EXPECT_TRUE(Down().empty());
}

TEST_F(MirrorsTest, LiesOnlyInsideTheHostWindowsAndTheirBounds) {
  EXPECT_EQ(mirrors_.Create(0x7000'0000'0000, kBytes, -1, &detail_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mirrors_.Create(kBase + 1, kBytes, -1, &detail_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mirrors_.Create(kBase + kBytes, 100, -1, &detail_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mirrors_.Create(kBase, kBytes, -1, &detail_), CUDA_ERROR_NOT_SUPPORTED) << "taken";
  EXPECT_EQ(mirrors_.Create(kBase + kBytes, uint64_t{8} << 30, -1, &detail_),
            CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(MirrorsTest, ChargesManagedMemoryToItsDevice) {
  uint64_t base = kBase + (2u << 30);
  ASSERT_EQ(mirrors_.Create(base, kBytes, 0, &detail_), CUDA_SUCCESS);
  EXPECT_EQ(broker_.charged, kBytes);
  EXPECT_EQ(mirrors_.Create(base + kBytes, 2u << 20, 0, &detail_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(detail_, "over");
  EXPECT_TRUE(mirrors_.Remove(base));
  EXPECT_EQ(broker_.charged, 0u);
  EXPECT_FALSE(mirrors_.Contains(base, 1));
}

}  // namespace
}  // namespace farcall::server
