// SPDX-License-Identifier: Apache-2.0
#include "proto/shared_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace farcall {
namespace {

std::vector<std::byte> Counting(size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + 3);
  return made;
}

TEST(SharedBytes, EveryByteIsComparedAtEveryLengthAndAddress) {
  for (size_t bytes : {0, 1, 7, 8, 255, 256, 257, 600}) {
    for (size_t start : {0, 1, 5}) {
      std::vector<std::byte> one = Counting(bytes + start);
      std::vector<std::byte> other(one.begin() + static_cast<ptrdiff_t>(start), one.end());
      EXPECT_FALSE(SharedBytesDiffer(one.data() + start, other.data(), bytes));
      for (size_t at = 0; at < bytes; ++at) {
        other[at] ^= std::byte{0x80};
        EXPECT_TRUE(SharedBytesDiffer(one.data() + start, other.data(), bytes)) << at;
        other[at] ^= std::byte{0x80};
      }
    }
  }
}

TEST(SharedBytes, CopiesNeitherMoreNorLess) {
  for (size_t bytes : {0, 1, 31, 32, 33, 4096, 5001}) {
    std::vector<std::byte> from = Counting(bytes + 3), to(bytes + 2, std::byte{0xEE});
    CopySharedBytes(to.data() + 1, from.data() + 3, bytes);
    EXPECT_EQ(to.front(), std::byte{0xEE});
    EXPECT_EQ(to.back(), std::byte{0xEE});
    EXPECT_TRUE(std::equal(from.begin() + 3, from.end(), to.begin() + 1));
  }
}

// What ThreadSanitizer would otherwise end the program for.
TEST(SharedBytes, SomebodyMayWriteMeanwhile) {
  std::vector<std::byte> shared(4096), seen(4096);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (unsigned value = 0; !stop; ++value) shared[value % 4096] = static_cast<std::byte>(value);
  });
  for (int round = 0; round < 1000; ++round) {
    CopySharedBytes(seen.data(), shared.data(), seen.size());
    (void)SharedBytesDiffer(shared.data(), seen.data(), seen.size());
  }
  stop = true;
  writer.join();
  CopySharedBytes(seen.data(), shared.data(), seen.size());
  EXPECT_EQ(seen, shared);
}

}  // namespace
}  // namespace farcall
