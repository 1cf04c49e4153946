// SPDX-License-Identifier: Apache-2.0
// Host memory at the client's addresses: what each side wrote reaches the other, byte by byte.
#include "server/memory/mirrors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "proto/cuda/host_window.h"
#include "server/memory/mirror_work.h"

namespace farcall::server {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr size_t kWindow = 2;  // the first lies in the sanitizer's shadow
#else
constexpr size_t kWindow = 0;
#endif
constexpr uint64_t kBase = kHostWindows[kWindow].base + (1u << 20), kBytes = 64 * kHostPageBytes;

class CountingBroker final : public MemoryBroker {
 public:
  Status Charge(int device, uint64_t bytes) override {
    if (bytes > (device == quota::kHostMemory ? 64u << 20 : 1u << 20))
      return {Code::kQuotaExceeded, "over"};
    (device == quota::kHostMemory ? host : charged) += bytes;
    return {};
  }
  void Refund(int device, uint64_t bytes) override {
    (device == quota::kHostMemory ? host : charged) -= bytes;
  }
  quota::Usage Query(int) override { return {1u << 20, charged}; }
  uint64_t charged = 0, host = 0;
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
  bool Up(uint64_t offset, std::vector<uint8_t> bytes, std::vector<uint8_t> mask = {}) {
    return mirrors_.Apply(kBase + offset, std::as_bytes(std::span(bytes)),
                          std::as_bytes(std::span(mask)));
  }
  struct Run {
    uint64_t offset;
    std::vector<uint8_t> bytes, mask;
  };
  static std::vector<uint8_t> Take(Reader& in) {
    std::span<const std::byte> bytes = in.GetBytes();
    auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
    return {first, first + bytes.size()};
  }
  std::vector<Run> Down(uint64_t from = 0, uint64_t* next = nullptr, size_t most = 256u << 10) {
    Builder out;
    uint64_t rest = mirrors_.Collect(from, most, &out);
    if (next != nullptr) *next = rest;
    Reader in(out.bytes());
    std::vector<Run> runs;
    while (in.ok() && in.remaining_bytes() >= 8) {
      Run run;
      run.offset = in.Get<uint64_t>() - kBase;
      run.bytes = Take(in);
      run.mask = Take(in);
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
  EXPECT_EQ(runs[0].bytes, (std::vector<uint8_t>{0, 0, 0, 0, 7, 0, 0, 0}));
  EXPECT_EQ(runs[0].mask, (std::vector<uint8_t>{1 << 4}));
  EXPECT_EQ(runs[1].offset, 5 * kHostPageBytes);
  EXPECT_TRUE(Down().empty());
}

TEST_F(MirrorsTest, NeedsNoMaskWhereEveryByteCounts) {
  std::memset(At(0), 3, kHostPageBytes);
  std::vector<Run> runs = Down();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].bytes.size(), kHostPageBytes);
  EXPECT_TRUE(runs[0].mask.empty());
}

// The host's word crosses the device's: neither side's neighbours are touched.
TEST_F(MirrorsTest, TakesOnlyTheBytesThatTheHostWrote) {
  At(8)[4] = 9;
  ASSERT_EQ(Down().size(), 1u);  // told, and not there yet when the host's word left
  EXPECT_TRUE(Up(8, {1, 2, 0, 0, 0, 0, 0, 0}, {0b11}));
  EXPECT_EQ(At(8)[0], 1);
  EXPECT_EQ(At(8)[1], 2);
  EXPECT_EQ(At(8)[4], 9);
  EXPECT_TRUE(Down().empty());
  At(8)[0] = 5;
  std::vector<Run> runs = Down();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].mask, (std::vector<uint8_t>{1})) << "not what the host wrote";
}

TEST_F(MirrorsTest, DoesNotSendBackWhatCameUp) {
  EXPECT_TRUE(Up(0, std::vector<uint8_t>(2 * kHostPageBytes, 3)));
  EXPECT_EQ(At(kHostPageBytes)[0], 3);
  EXPECT_TRUE(Down().empty());
}

// A variable of the driver's: elsewhere, and not of whole pages.
TEST_F(MirrorsTest, ShowsAVariableUntilTheDriverTakesItBack) {
  std::vector<uint8_t> variable(kHostPageBytes + 3);
  variable[1] = 6;
  variable.back() = 5;
  auto memory = reinterpret_cast<CUdeviceptr>(variable.data());
  uint64_t shown = kBase + kBytes, room = 2 * kHostPageBytes, owner = 16;
  EXPECT_EQ(mirrors_.Adopt(kBase, room, memory, 8, owner), CUDA_ERROR_INVALID_VALUE) << "taken";
  EXPECT_EQ(mirrors_.Adopt(shown, kHostPageBytes, memory, variable.size(), owner),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(mirrors_.Adopt(shown, room, memory, variable.size(), owner), CUDA_SUCCESS);
  EXPECT_FALSE(mirrors_.Contains(shown, 8)) << "no device reaches it there";
  std::vector<Run> runs = Down();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].bytes, (std::vector<uint8_t>{0, 6, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(runs[1].offset, kBytes + kHostPageBytes);
  EXPECT_EQ(runs[1].bytes, (std::vector<uint8_t>{0, 0, 5})) << "no byte beyond it";
  EXPECT_TRUE(Up(kBytes + kHostPageBytes, {9, 9, 9}));
  EXPECT_EQ(variable[kHostPageBytes], 9);
  EXPECT_FALSE(Up(kBytes + kHostPageBytes, {9, 9, 9, 9})) << "beyond it";
  mirrors_.Abandon(owner);
  variable[0] = 1;
  EXPECT_TRUE(Down().empty());
  EXPECT_TRUE(Up(kBytes, {4, 4}));
  EXPECT_EQ(variable[1], 6) << "it may be another's by now";
  EXPECT_TRUE(mirrors_.Remove(shown));
}

TEST_F(MirrorsTest, AppliesRunsAndRefusesLies) {
  auto of = [](uint64_t address, size_t mask_bytes) {
    Builder run;
    run.Put<uint64_t>(address);
    run.PutBytes("ab", 2);
    run.PutBytes("\xff\xff", mask_bytes);
    run.mutable_bytes().resize(AlignUp(run.bytes().size(), 8));
    return run;
  };
  EXPECT_TRUE(mirrors_.ApplyRuns(of(kBase + 16, 1).bytes()));
  EXPECT_EQ(At(16)[1], 'b');
  EXPECT_TRUE(mirrors_.ApplyRuns(of(kBase + 16, 0).bytes()));
  EXPECT_FALSE(mirrors_.ApplyRuns(of(kBase + 16, 2).bytes())) << "a mask of other bytes";
  EXPECT_FALSE(mirrors_.ApplyRuns(of(kBase + kBytes - 1, 0).bytes()));
  Builder cut;
  cut.Put<uint64_t>(kBase);
  cut.Put<uint64_t>(1000);
  EXPECT_FALSE(mirrors_.ApplyRuns(cut.bytes()));
  EXPECT_FALSE(Up(kBytes - 1, {1, 2}));
  EXPECT_FALSE(Up(0, {1, 2}, {1, 1}));
  EXPECT_FALSE(mirrors_.Remove(kBase + kHostPageBytes));
}

TEST_F(MirrorsTest, TellsOfLargeChangesPieceByPiece) {
  uint64_t base = kBase + (1u << 30), bytes = 4u << 20;
  ASSERT_EQ(mirrors_.Create(base, bytes, -1, &detail_), CUDA_SUCCESS);
  EXPECT_EQ(mirrors_.bytes(), kBytes + bytes);
  std::memset(reinterpret_cast<void*>(base), 5, bytes);
  uint64_t from = 0, told_bytes = 0;
  int pieces = 0;
  do {
    uint64_t piece_bytes = 0;
    for (const Run& run : Down(from, &from)) piece_bytes += run.bytes.size();
    EXPECT_LE(piece_bytes, (256u << 10) + kHostPageBytes);
    told_bytes += piece_bytes;
    ++pieces;
  } while (from != 0);
  EXPECT_EQ(told_bytes, bytes);
  EXPECT_GE(pieces, 16);
  EXPECT_TRUE(Down().empty());
}

TEST_F(MirrorsTest, LooksThroughABoundedStretchAtATime) {
  uint64_t base = kBase + (1u << 30), bytes = 2 * Mirrors::kMaxLookedBytes;
  ASSERT_EQ(mirrors_.Create(base, bytes, -1, &detail_), CUDA_SUCCESS);
  reinterpret_cast<uint8_t*>(base)[bytes - 1] = 1;
  uint64_t next = 0;
  EXPECT_TRUE(Down(0, &next).empty());
  ASSERT_NE(next, 0u);
  EXPECT_TRUE(Down(next, &next).empty());
  ASSERT_NE(next, 0u);
  EXPECT_EQ(Down(next, &next).size(), 1u);
  EXPECT_EQ(next, 0u);
  EXPECT_TRUE(Down(~uint64_t{0}, &next).empty()) << "from a place behind all";
  EXPECT_EQ(next, 0u);
}

TEST(MirrorWorkTest, LooksWhereWorkMayHaveWrittenAndNoMore) {
  MirrorWork work;
  EXPECT_FALSE(work.Take()) << "nothing was submitted";
  work.Submitted(1, 10);
  EXPECT_TRUE(work.Take()) << "it may have got so far";
  EXPECT_TRUE(work.Take());
  work.Reached(1, 10);  // a point before it
  EXPECT_TRUE(work.Take());
  work.Reached(2, 12);  // another stream
  EXPECT_TRUE(work.Take());
  work.Reached(1, 11);
  EXPECT_TRUE(work.Take()) << "complete, and not looked at since";
  EXPECT_FALSE(work.Take());
  work.PutBack();
  EXPECT_TRUE(work.Take());
  EXPECT_FALSE(work.Take());
}

TEST_F(MirrorsTest, SharedMemoryIsTheFilesAndCrossesNothing) {
  const uint64_t address = kBase + kBytes;
  const uint64_t crossing = mirrors_.bytes(), host = broker_.host;
  int file = -1;
  ASSERT_EQ(mirrors_.Share(address, kBytes, -1, &file, &detail_), CUDA_SUCCESS) << detail_;
  EXPECT_EQ(broker_.host, host + kBytes);
  EXPECT_EQ(mirrors_.bytes(), crossing);
  EXPECT_TRUE(mirrors_.Contains(address, kBytes));
  EXPECT_FALSE(mirrors_.MayApply(address, 8));
  EXPECT_FALSE(Up(kBytes, {1, 2, 3, 4, 5, 6, 7, 8}));
  // Nobody can take pages away.
  struct stat status {};
  ASSERT_EQ(fstat(file, &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(kBytes));
  EXPECT_EQ(status.st_blocks * 512, static_cast<off_t>(kBytes)) << "all of it is there";
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_NE(ftruncate(file, 2 * kBytes), 0);
  // Both see the same.
  const uint8_t byte = 9;
  EXPECT_EQ(pwrite(file, &byte, 1, 5000), 1);
  EXPECT_EQ(At(kBytes + 5000)[0], 9);
  At(kBytes)[1] = 4;
  uint8_t got = 0;
  EXPECT_EQ(pread(file, &got, 1, 1), 1);
  EXPECT_EQ(got, 4);
  EXPECT_TRUE(Down().empty());
  close(file);
  EXPECT_TRUE(mirrors_.Remove(address));
  EXPECT_EQ(broker_.host, host);
}

TEST_F(MirrorsTest, WhatCannotBeSharedLeavesNothing) {
  const uint64_t host = broker_.host, charged = broker_.charged;
  int file = -1;
  EXPECT_EQ(mirrors_.Share(kBase, kBytes, -1, &file, &detail_), CUDA_ERROR_NOT_SUPPORTED)
      << "a mirror lies there";
  EXPECT_EQ(file, -1);
  EXPECT_EQ(mirrors_.Share(kBase + kBytes, 2u << 20, 0, &file, &detail_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(mirrors_.Share(kBase + kBytes + 1, kBytes, -1, &file, &detail_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mirrors_.Share(0x1000, kBytes, -1, &file, &detail_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(file, -1);
  api_.cuMemHostRegister_v2 = [](void*, size_t, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; };
  EXPECT_EQ(mirrors_.Share(kBase + kBytes, kBytes, -1, &file, &detail_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(file, -1);
  EXPECT_EQ(broker_.host, host);
  EXPECT_EQ(broker_.charged, charged);
  EXPECT_TRUE(mirrors_.Contains(kBase, kBytes));
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
  EXPECT_EQ(broker_.host, kBytes) << "the other kind has its own account";
  EXPECT_FALSE(mirrors_.Contains(base, 1));
}

}  // namespace
}  // namespace farcall::server
