// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_blobs.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(LibraryBlobs, APutBlobIsItsPiecesInOrderUntilItIsDropped) {
  LibraryBlobs blobs;
  EXPECT_TRUE(blobs.Append(7, Bytes("one ")));
  EXPECT_TRUE(blobs.Append(7, Bytes("two")));
  EXPECT_EQ(*blobs.Find(7), "one two");
  blobs.Drop(7);
  EXPECT_EQ(blobs.Find(7), nullptr);
  EXPECT_TRUE(blobs.Append(8, {}));
  EXPECT_EQ(*blobs.Find(8), "");
}

TEST(LibraryBlobs, WhatACallReadsStaysAsItIsAndCountsUntilItEnds) {
  LibraryBlobs blobs;
  const std::string large(kMaxBlobBytes / 2, 'x');
  EXPECT_TRUE(blobs.Append(7, Bytes(large)));
  std::shared_ptr<const std::string> read = blobs.Find(7);
  EXPECT_FALSE(blobs.Append(7, Bytes("more")));
  EXPECT_EQ(blobs.Find(7), nullptr);
  EXPECT_EQ(read->size(), large.size());
  EXPECT_FALSE(blobs.Append(8, Bytes(large)));  // dropped, and held by its reader all the same
  read = nullptr;
  EXPECT_TRUE(blobs.Append(8, Bytes(large)));
}

TEST(LibraryBlobs, WhatIsKeptIsTakenInPiecesAndGoesWithTheLast) {
  LibraryBlobs blobs;
  const std::string text(kBlobPieceBytes + 5, 'x');
  const uint64_t blob = blobs.Keep(text);
  EXPECT_GE(blob, kServerBlob);
  std::string piece;
  ASSERT_TRUE(blobs.Take(blob, 0, &piece));
  EXPECT_EQ(piece.size(), kBlobPieceBytes);
  EXPECT_FALSE(blobs.Take(blob, text.size() + 1, &piece));
  ASSERT_TRUE(blobs.Take(blob, kBlobPieceBytes, &piece));
  EXPECT_EQ(piece, "xxxxx");
  EXPECT_FALSE(blobs.Take(blob, 0, &piece));
}

TEST(LibraryBlobs, NobodyNamesTheServersBlobsByHand) {
  LibraryBlobs blobs;
  EXPECT_FALSE(blobs.Append(kServerBlob + 1, Bytes("x")));
  EXPECT_EQ(blobs.Find(kServerBlob + 1), nullptr);
}

TEST(LibraryBlobs, ASessionHoldsNoMoreThanItMayAndEmptyOnesCount) {
  LibraryBlobs blobs;
  const std::string large(kMaxBlobBytes / 4, 'x');
  for (uint64_t blob : {1, 2, 3}) EXPECT_TRUE(blobs.Append(blob, Bytes(large)));
  EXPECT_FALSE(blobs.Append(4, Bytes(large)));  // with what each of them costs
  EXPECT_FALSE(blobs.Append(3, Bytes(large)));
  EXPECT_EQ(blobs.Find(3), nullptr);  // half of it would be another program
  EXPECT_EQ(blobs.Keep(large + large), 0u);
  EXPECT_TRUE(blobs.Append(4, Bytes(large)));
  uint64_t empty = 100;
  while (blobs.Append(empty, {})) ++empty;
  EXPECT_LT(empty, kMaxBlobBytes / 100);
}

}  // namespace
}  // namespace farcall::server
