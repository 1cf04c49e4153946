// SPDX-License-Identifier: Apache-2.0
// Credit, allocations and the ledger behind them, on a driver that only counts.
#include "server/memory/device_memory.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kBase = uint64_t{1} << 45;

uint64_t g_mapped_bytes, g_created_bytes, g_largest_chunk, g_device_bytes;

class CountingBroker final : public MemoryBroker {
 public:
  CountingBroker() {
    use().OnUnspent([this](int, uint64_t bytes) { told_unspent = bytes; });
  }
  Status Charge(int, uint64_t bytes) override {
    if (bytes > quota - charged) return {Code::kQuotaExceeded, "over"};
    charged += bytes;
    return {};
  }
  void Refund(int, uint64_t bytes) override {
    charged -= bytes;
    EXPECT_LT(told_unspent, charged + kChunkGranularityBytes) << "free and unspent at once";
  }
  quota::Usage Query(int) override { return {quota, charged}; }
  uint64_t quota = 512 * kMiB, charged = 0, told_unspent = 0;
};

DriverApi CountingDriver() {
  g_mapped_bytes = g_created_bytes = g_largest_chunk = 0;
  g_device_bytes = 400 * kMiB;
  DriverApi api;
  api.cuMemAddressReserve = [](CUdeviceptr* at, size_t, size_t, CUdeviceptr hint,
                               unsigned long long) {
    *at = hint == kBase ? hint : hint + 4096;
    return CUDA_SUCCESS;
  };
  api.cuMemAddressFree = [](CUdeviceptr, size_t) { return CUDA_SUCCESS; };
  api.cuMemCreate = [](CUmemGenericAllocationHandle* handle, size_t bytes,
                       const CUmemAllocationProp*, unsigned long long) {
    if (g_created_bytes + bytes > g_device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    g_created_bytes += bytes;
    g_largest_chunk = std::max<uint64_t>(g_largest_chunk, bytes);
    *handle = bytes;
    return CUDA_SUCCESS;
  };
  api.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
    g_created_bytes -= handle;
    return CUDA_SUCCESS;
  };
  api.cuMemMap = [](CUdeviceptr, size_t bytes, size_t, CUmemGenericAllocationHandle,
                    unsigned long long) {
    g_mapped_bytes += bytes;
    return CUDA_SUCCESS;
  };
  api.cuMemUnmap = [](CUdeviceptr, size_t bytes) {
    g_mapped_bytes -= bytes;
    return CUDA_SUCCESS;
  };
  api.cuMemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
    return CUDA_SUCCESS;
  };
  return api;
}

class DeviceMemoryTest : public ::testing::Test {
 protected:
  DeviceMemoryTest() : api_(CountingDriver()), memory_(api_, broker_) {
    EXPECT_EQ(memory_.ReserveWindow({{kBase + 64 * kMiB, 1u << 30}, {kBase, uint64_t{1} << 30}}), 1)
        << "the second offer fits";
  }
  Window Grant(uint64_t bytes) {
    Window range;
    last_ = memory_.Grant(0, bytes, &range, &detail_);
    return range;
  }
  DriverApi api_;
  CountingBroker broker_;
  DeviceMemory memory_;
  CUresult last_ = CUDA_SUCCESS;
  std::string detail_;
};

TEST_F(DeviceMemoryTest, ChargesWhatItMapsAndNoMore) {
  Window range = Grant(3 * kMiB);
  EXPECT_EQ(range.bytes, 4 * kMiB);
  EXPECT_EQ(broker_.charged, 4 * kMiB);
  EXPECT_EQ(g_mapped_bytes, 4 * kMiB);
  Grant(150 * kMiB);
  EXPECT_EQ(g_largest_chunk, 64 * kMiB);
  EXPECT_EQ(broker_.charged, 154 * kMiB);
}

TEST_F(DeviceMemoryTest, RefundsWhatTheDeviceRefuses) {
  Grant(300 * kMiB);
  EXPECT_EQ(Grant(150 * kMiB).bytes, 0u);
  EXPECT_EQ(last_, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(broker_.charged, 300 * kMiB);
  EXPECT_EQ(g_mapped_bytes, 300 * kMiB) << "nothing half made is left";
  Grant(400 * kMiB);
  EXPECT_EQ(detail_, "over") << "the ledger refuses before the device is asked";
}

TEST_F(DeviceMemoryTest, GivesAChunkBackWhenAllOfItHasReturned) {
  Window range = Grant(8 * kMiB);
  EXPECT_TRUE(memory_.ReturnCredit(0, range.base, 2 * kMiB));
  EXPECT_EQ(broker_.charged, 8 * kMiB);
  EXPECT_FALSE(memory_.ReturnCredit(0, range.base, 2 * kMiB)) << "returned before";
  EXPECT_FALSE(memory_.Allocate(0, range.base, 4096, 1)) << "no credit any more";
  EXPECT_TRUE(memory_.ReturnCredit(0, range.base + 2 * kMiB, 6 * kMiB));
  EXPECT_EQ(broker_.charged, 0u);
  EXPECT_EQ(g_mapped_bytes, 0u);
  EXPECT_EQ(Grant(8 * kMiB).base, range.base) << "the addresses are free again";
}

TEST_F(DeviceMemoryTest, GrantsAnewWhatCameBackOfAChunkInUse) {
  broker_.quota = 96 * kMiB;
  Window first = Grant(64 * kMiB), second = Grant(32 * kMiB);
  ASSERT_EQ(second.base, first.base + 64 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, first.base + 4 * kMiB, kMiB, 1));
  EXPECT_TRUE(memory_.Allocate(0, second.base + 30 * kMiB, kMiB, 1));
  EXPECT_EQ(Grant(2 * kMiB).bytes, 0u) << "all of it is out";
  EXPECT_TRUE(memory_.ReturnCredit(0, first.base, 4 * kMiB));
  EXPECT_TRUE(memory_.ReturnCredit(0, first.base + 6 * kMiB, 58 * kMiB));
  EXPECT_TRUE(memory_.ReturnCredit(0, second.base, 30 * kMiB));
  EXPECT_EQ(Grant(90 * kMiB).bytes, 0u) << "in no one piece";
  EXPECT_EQ(Grant(88 * kMiB).base, first.base + 6 * kMiB) << "over the edge of two chunks";
  EXPECT_EQ(Grant(4 * kMiB).base, first.base);
  EXPECT_EQ(Grant(2 * kMiB).bytes, 0u);
  EXPECT_EQ(broker_.charged, 96 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, first.base + 60 * kMiB, 20 * kMiB, 1));
  memory_.FreeContext(1);
  EXPECT_TRUE(memory_.ReturnCredit(0, first.base, 96 * kMiB));
  EXPECT_EQ(broker_.charged, 0u);
  EXPECT_EQ(g_mapped_bytes, 0u);
}

TEST_F(DeviceMemoryTest, KeepsAllocationsApartAndCreditInUse) {
  Window range = Grant(4 * kMiB);
  EXPECT_TRUE(memory_.Allocate(0, range.base + 4096, 8192, 1));
  EXPECT_FALSE(memory_.Allocate(0, range.base + 8192, 512, 1));
  EXPECT_FALSE(memory_.Allocate(0, range.base, 4097, 1));
  EXPECT_TRUE(memory_.Allocate(0, range.base, 4096, 1));
  EXPECT_FALSE(memory_.Allocate(1, range.base + kMiB, 4096, 1)) << "another device's credit";
  EXPECT_FALSE(memory_.Allocate(0, range.base + 4 * kMiB - 512, 513, 1));
  EXPECT_FALSE(memory_.Allocate(0, range.base + kMiB, ~uint64_t{0}, 1));
  EXPECT_FALSE(memory_.ReturnCredit(0, range.base, 2 * kMiB)) << "in use";
  DeviceMemory::Freed freed;
  EXPECT_FALSE(memory_.Free(range.base + 1, &freed));
  EXPECT_TRUE(memory_.Free(range.base, &freed));
  EXPECT_EQ(freed.driver_address, 0u);
  memory_.FreeContext(1);
  EXPECT_TRUE(memory_.ReturnCredit(0, range.base, 4 * kMiB));
}

TEST_F(DeviceMemoryTest, KnowsTheSessionsOwnAddresses) {
  Window one = Grant(2 * kMiB), two = Grant(2 * kMiB);
  ASSERT_EQ(one.base + one.bytes, two.base);
  EXPECT_TRUE(memory_.Contains(one.base + kMiB, 2 * kMiB)) << "across grants that touch";
  EXPECT_FALSE(memory_.Contains(one.base, 4 * kMiB + 1));
  EXPECT_FALSE(memory_.Contains(one.base, ~uint64_t{0}));
  EXPECT_FALSE(memory_.Contains(one.base - 1, 1));
  memory_.AddForeign(0x7000, 256, 9);
  EXPECT_TRUE(memory_.Contains(0x7080, 128));
  EXPECT_FALSE(memory_.Contains(0x7080, 129));
  memory_.RemoveForeign(9);
  EXPECT_FALSE(memory_.Contains(0x7080, 1));
}

}  // namespace
}  // namespace farcall::server
