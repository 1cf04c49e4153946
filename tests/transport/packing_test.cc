// SPDX-License-Identifier: Apache-2.0
// Chunks that cross compressed: when they do, that they arrive as they were, and what a peer may
// not say of them.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/transport/link_harness.h"
#include "transport/link/chunk_packing.h"

namespace farcall::test {
namespace {

using std::chrono::milliseconds;
using Ns = PackingPolicy::Ns;

constexpr size_t kMiB = 1u << 20;

// 1 MiB at so many bytes in a nanosecond.
Ns At(double gigabytes_per_s) {
  return Ns(static_cast<int64_t>(static_cast<double>(kMiB) / gigabytes_per_s));
}

TEST(PackingPolicyTest, DoesNothingWhileTheLaneIsNeverFull) {
  PackingPolicy policy(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(policy.ShouldTry());
    EXPECT_FALSE(policy.ShouldPack());
    policy.Sent(kMiB, At(0.1), /*was_full=*/false);
  }
}

TEST(PackingPolicyTest, PacksWhereTheLaneIsSlowerAndTheBytesGetSmaller) {
  PackingPolicy policy(1);
  policy.Sent(kMiB, At(0.1), /*was_full=*/true);
  EXPECT_FALSE(policy.ShouldPack());  // not known yet what comes of it
  ASSERT_TRUE(policy.ShouldTry());
  policy.Tried(kMiB, kMiB * 3 / 4, At(0.7));
  EXPECT_TRUE(policy.ShouldPack());
}

TEST(PackingPolicyTest, LeavesAFastLaneAlone) {
  PackingPolicy policy(1);
  policy.Sent(kMiB, At(2), /*was_full=*/true);
  ASSERT_TRUE(policy.ShouldTry());
  policy.Tried(kMiB, kMiB / 4, At(0.7));
  EXPECT_FALSE(policy.ShouldPack());
}

// Each could do with a processor of its own.
TEST(PackingPolicyTest, LanesTogetherTakePartOfAProcessor) {
  for (const bool is_one : {true, false}) {
    PackingPolicy policy(is_one ? 1 : 8);
    policy.Sent(kMiB, At(0.08), /*was_full=*/true);
    ASSERT_TRUE(policy.ShouldTry());
    policy.Tried(kMiB, kMiB / 2, At(0.7));
    EXPECT_EQ(policy.ShouldPack(), is_one);
  }
}

// Whatever little chunks wait behind.
TEST(PackingPolicyTest, JudgesALaneByItsBytes) {
  PackingPolicy policy(1);
  policy.Sent(kMiB, At(2), /*was_full=*/true);
  ASSERT_TRUE(policy.ShouldTry());
  policy.Tried(kMiB, kMiB / 4, At(0.7));
  policy.Sent(1, Ns(100'000), /*was_full=*/true);
  EXPECT_FALSE(policy.ShouldPack());
}

TEST(PackingPolicyTest, TriesSeldomerWhatDoesNotGetSmaller) {
  PackingPolicy policy(1);
  int tries = 0;
  for (int i = 0; i < 1000; ++i) {
    policy.Sent(kMiB, At(0.1), /*was_full=*/true);
    if (policy.ShouldTry()) {
      ++tries;
      policy.Tried(kMiB, kMiB, At(0.7));
    }
    EXPECT_FALSE(policy.ShouldPack());
  }
  EXPECT_GE(tries, 3);
  EXPECT_LE(tries, 10);
}

// It then takes its chunks at the compressor's speed, and is no slower than it was.
TEST(PackingPolicyTest, StopsWhereTheCompressorHasBecomeTheSlowerOne) {
  PackingPolicy policy(1);
  policy.Sent(kMiB, At(0.2), /*was_full=*/true);
  ASSERT_TRUE(policy.ShouldTry());
  policy.Tried(kMiB, kMiB / 2, At(1));
  ASSERT_TRUE(policy.ShouldPack());
  int chunks = 0;
  for (; policy.ShouldPack() && chunks < 100; ++chunks) {
    policy.Tried(kMiB, kMiB / 2, At(0.1));
    policy.Sent(kMiB / 2, At(0.1), /*was_full=*/false);
  }
  EXPECT_LT(chunks, 20);
}

// Sixteen different letters, in no order: half of it is left.
std::vector<std::byte> Letters(size_t bytes) {
  std::vector<std::byte> text = Pattern(bytes, 3);
  for (std::byte& byte : text) byte &= std::byte{0x0f};
  return text;
}

LinkOptions Packing(LinkOptions::Packing packing) {
  LinkOptions options;
  options.packing = packing;
  return options;
}

class PackingTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!CanPackChunks()) GTEST_SKIP() << "no libzstd.so.1 here";
  }
  // A chunk may land before the thread that sent it has counted it.
  static bool HasSent(End& end, uint64_t chunk_bytes) {
    const auto limit = std::chrono::steady_clock::now() + milliseconds(kLong);
    while (end.link->counters().chunk_bytes_out < chunk_bytes) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return end.link->counters().chunk_bytes_out == chunk_bytes;
  }
  static void Cross(End& from, End& to, uint64_t transfer, const std::vector<std::byte>& bytes) {
    to.recorder.Expect(transfer, bytes.size());
    ASSERT_TRUE(from.link->SendTransfer(transfer, 0, bytes, Link::Retain::kCopied).ok());
    ASSERT_TRUE(to.link->WaitChunks(from.link->chunks_sent(), In(kLong)).ok());
    EXPECT_TRUE(to.recorder.Landed(transfer) == bytes);
  }
};

TEST_P(PackingTest, WhatGetsSmallerCrossesSmaller) {
  const LinkOptions options = Packing(LinkOptions::Packing::kAlways);
  Pair pair(FreshUrl(GetParam()), options, options);
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  const std::vector<std::byte> bytes = Letters(3 * kMiB + 4321);
  Cross(*pair.client, *pair.server, 1, bytes);
  EXPECT_LT(pair.client->link->counters().chunk_bytes_out, bytes.size() * 6 / 10);
  EXPECT_EQ(pair.server->link->counters().chunk_bytes_in, bytes.size());
  Cross(*pair.server, *pair.client, 1, bytes);
  EXPECT_LT(pair.server->link->counters().chunk_bytes_out, bytes.size() * 6 / 10);
}

TEST_P(PackingTest, WhatDoesNotCrossesAsItIs) {
  const LinkOptions options = Packing(LinkOptions::Packing::kAlways);
  Pair pair(FreshUrl(GetParam()), options, options);
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  const std::vector<std::byte> bytes = Pattern(2 * kMiB, 7), one(1, std::byte{9});
  Cross(*pair.client, *pair.server, 1, bytes);
  Cross(*pair.client, *pair.server, 2, one);
  EXPECT_TRUE(HasSent(*pair.client, bytes.size() + one.size() + 3 * sizeof(ChunkHeader)));
}

TEST_P(PackingTest, SurvivesConnectionsCutAnywhere) {
  const LinkOptions options = Packing(LinkOptions::Packing::kAlways);
  const std::vector<std::byte> bytes = Letters(300'000);
  int cuts = 0;
  for (int64_t cut = 40'000; cut < 150'000; cut += 9'973) {
    Pair pair(FreshUrl(GetParam()), options, options);
    ASSERT_TRUE(pair.ok());
    ASSERT_TRUE(pair.client->link->OpenLanes().ok());
    pair.faults->cut_after_bytes = cut;
    Cross(*pair.client, *pair.server, 1, bytes);
    cuts += pair.faults->cuts;
  }
  EXPECT_GT(cuts, 8);
}

INSTANTIATE_TEST_SUITE_P(Transports, PackingTest, testing::ValuesIn(TransportUrls()),
                         [](const auto& info) { return UrlTestName(info.param); });

}  // namespace
}  // namespace farcall::test
