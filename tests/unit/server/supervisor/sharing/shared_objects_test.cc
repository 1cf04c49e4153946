// SPDX-License-Identifier: Apache-2.0
// What sessions of a vGPU share, with a real ledger and descriptors that only have numbers.
#include "server/supervisor/sharing/shared_objects.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace farcall::server {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr int kMaker = 10, kOther = 11;

class SharedObjectsTest : public testing::Test {
 protected:
  SharedObjectsTest() {
    ledger_.Open("a", 0, 64 * kMiB);
    charge_ = std::move(*ledger_.Reserve("a", 0, 16 * kMiB));
  }

  control::ShareReply Share(uint64_t bytes, int descriptor = 100, const char* vgpu = "a") {
    descriptor_ = descriptor;
    return shared_.Share(kMaker, vgpu, &charge_, {.id = 1, .device = 0, .bytes = bytes},
                         &descriptor_);
  }
  bool Redeem(int worker, const ShareToken& token, const char* vgpu = "a") {
    return shared_.Redeem(worker, vgpu, {.id = 2, .token = token}, &descriptor_).is_there;
  }
  uint64_t charged() const { return ledger_.usage("a", 0).charged_bytes; }

  quota::MemoryLedger ledger_;
  quota::Charge charge_;
  int descriptor_ = -1;
  std::vector<int> closed_;
  SharedObjects shared_{[this](int fd) { closed_.push_back(fd); }, [] { return size_t{2}; }};
};

TEST_F(SharedObjectsTest, AnObjectTakesItsDescriptorAndItsPartOfTheCharge) {
  const control::ShareReply shared = Share(4 * kMiB);
  ASSERT_TRUE(shared.is_shared);
  EXPECT_EQ(descriptor_, -1) << "it was taken";
  EXPECT_EQ(charge_.bytes(), 12 * kMiB);
  EXPECT_EQ(charged(), 16 * kMiB);
  EXPECT_EQ(shared_.BytesHeldBy(kMaker, 0), 4 * kMiB);
  EXPECT_EQ(shared_.BytesHeldBy(kMaker, 1), 0u);
  ASSERT_TRUE(Redeem(kOther, shared.token));
  EXPECT_EQ(descriptor_, 100);
  EXPECT_EQ(shared_.BytesHeldBy(kOther, 0), 4 * kMiB);
}

TEST_F(SharedObjectsTest, ItOutlivesItsMakerAndIsRefundedWithItsLastHolder) {
  const control::ShareReply shared = Share(4 * kMiB);
  ASSERT_TRUE(Redeem(kOther, shared.token));
  ASSERT_TRUE(Redeem(kOther, shared.token));
  shared_.Leave(kMaker);
  EXPECT_TRUE(closed_.empty());
  shared_.Drop(kOther, shared.token);
  EXPECT_TRUE(closed_.empty()) << "it was redeemed twice";
  shared_.Drop(kMaker, shared.token);  // which holds nothing
  EXPECT_TRUE(closed_.empty());
  shared_.Drop(kOther, shared.token);
  EXPECT_EQ(closed_, std::vector<int>{100});
  EXPECT_EQ(charged(), 12 * kMiB);
  EXPECT_EQ(shared_.size(), 0u);
  EXPECT_FALSE(Redeem(kOther, shared.token));
}

TEST_F(SharedObjectsTest, AnotherVgpuFindsNothing) {
  const control::ShareReply shared = Share(0);
  EXPECT_FALSE(Redeem(kOther, shared.token, "b"));
  EXPECT_EQ(descriptor_, -1);
}

TEST_F(SharedObjectsTest, WhatWasNotChargedIsNotShared) {
  const control::ShareReply refused = Share(17 * kMiB);
  EXPECT_FALSE(refused.is_shared);
  EXPECT_EQ(refused.why.str(), "what is to be shared was not charged");
  EXPECT_EQ(descriptor_, 100) << "it stays the caller's";
  EXPECT_FALSE(Share(0, -1).is_shared) << "no descriptor came";
}

TEST_F(SharedObjectsTest, AVgpuAndAllOfThemHaveBounds) {
  EXPECT_TRUE(Share(0).is_shared);
  EXPECT_TRUE(Share(0).is_shared);
  EXPECT_FALSE(Share(0).is_shared);
  for (const char* vgpu : {"b", "b", "c", "c", "d", "d"})
    EXPECT_TRUE(Share(0, 100, vgpu).is_shared);
  EXPECT_FALSE(Share(0, 100, "e").is_shared) << "the process has no more descriptors for it";
  shared_.Leave(kMaker);
  EXPECT_EQ(closed_.size(), 8u);
  EXPECT_TRUE(Share(0).is_shared);
}

}  // namespace
}  // namespace farcall::server
