// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/loader_log.h"

#include <gtest/gtest.h>

#include <sstream>

namespace farcall::cli {
namespace {

std::vector<LibraryLookup> Parse(const std::string& text) {
  std::istringstream log(text);
  return ParseLoaderLog(log);
}

TEST(LoaderLogTest, AFileIsFoundWhereTheSearchEnded) {
  auto lookups = Parse(
      "     11:\tfile=libcuda.so.1 [0];  needed by ./app [0]\n"
      "     11:\tfind library=libcuda.so.1 [0]; searching\n"
      "     11:\t search path=/far/tls:/far\t\t(LD_LIBRARY_PATH)\n"
      "     11:\t  trying file=/far/tls/libcuda.so.1\n"
      "     11:\t  trying file=/far/libcuda.so.1\n"
      "     11:\t\n"
      "     11:\tfile=libcuda.so.1 [0];  generating link map\n"
      "     11:\t  dynamic: 0x00007f5af7733b60  base: 0x00007f5af7561000   size: 0x1\n");
  ASSERT_EQ(lookups.size(), 1u);
  EXPECT_EQ(lookups[0].name, "libcuda.so.1");
  EXPECT_EQ(lookups[0].wanted_by, "./app");
  EXPECT_EQ(lookups[0].file, "/far/libcuda.so.1");
  EXPECT_EQ(lookups[0].reason, "LD_LIBRARY_PATH");
  EXPECT_FALSE(lookups[0].by_dlopen);
}

TEST(LoaderLogTest, AnAuditorsAnswerIsTold) {
  auto lookups = Parse(
      "     11:\tfile=/v/nvidia/libcublas.so.13 [0];  dynamically loaded by /v/python [0]\n"
      "     11:\tfile=/far/thin/libcublas.so.13 [0];  generating link map\n"
      "     11:\tfile=/v/own.so [0];  dynamically loaded by /v/python [0]\n"
      "     11:\tfile=/v/own.so [0];  generating link map\n");
  ASSERT_EQ(lookups.size(), 2u);
  EXPECT_EQ(lookups[0].name, "/v/nvidia/libcublas.so.13");
  EXPECT_EQ(lookups[0].file, "/far/thin/libcublas.so.13");
  EXPECT_EQ(lookups[0].reason, "the auditor");
  EXPECT_EQ(lookups[1].reason, "its own path");
}

TEST(LoaderLogTest, TheLastPathSearchedIsTheReason) {
  auto lookups = Parse(
      "     11:\tfile=libcublas.so.13 [0];  dynamically loaded by /v/libtorch_cuda.so [0]\n"
      "     11:\t search path=/nowhere\t\t(LD_LIBRARY_PATH)\n"
      "     11:\t  trying file=/nowhere/libcublas.so.13\n"
      "     11:\t search path=/v/nvidia\t\t(RPATH from file /v/libtorch_cuda.so)\n"
      "     11:\t  trying file=/v/nvidia/libcublas.so.13\n"
      "     11:\tfile=libcublas.so.13 [0];  generating link map\n"
      "     11:\tfile=libm.so.6 [0];  needed by ./app [0]\n"
      "     11:\t search cache=/etc/ld.so.cache\n"
      "     11:\t  trying file=/lib/libm.so.6\n"
      "     11:\tfile=libm.so.6 [0];  generating link map\n");
  ASSERT_EQ(lookups.size(), 2u);
  EXPECT_TRUE(lookups[0].by_dlopen);
  EXPECT_EQ(lookups[0].reason, "RPATH from file /v/libtorch_cuda.so");
  EXPECT_EQ(lookups[0].file, "/v/nvidia/libcublas.so.13");
  EXPECT_EQ(lookups[1].reason, "ld.so.cache");
}

TEST(LoaderLogTest, WhatIsNeverMappedWasNotFound) {
  auto lookups = Parse(
      "     11:\tfile=libcudart.so.9 [0];  dynamically loaded by ./app [0]\n"
      "     11:\t search path=/far\t\t(LD_LIBRARY_PATH)\n"
      "     11:\t  trying file=/far/libcudart.so.9\n"
      "     11:\tfile=libz.so.1 [0];  dynamically loaded by ./app [0]\n"
      "     11:\t  trying file=/lib/libz.so.1\n");
  ASSERT_EQ(lookups.size(), 2u);
  EXPECT_EQ(lookups[0].file, "");
  EXPECT_EQ(lookups[0].reason, "");
  EXPECT_EQ(lookups[1].file, "");
}

TEST(LoaderLogTest, APathIsItsOwnReason) {
  auto lookups = Parse(
      "     11:\tfile=/opt/libcuda.so.1 [0];  dynamically loaded by ./app [0]\n"
      "     11:\tfile=/opt/libcuda.so.1 [0];  generating link map\n");
  ASSERT_EQ(lookups.size(), 1u);
  EXPECT_EQ(lookups[0].file, "/opt/libcuda.so.1");
  EXPECT_EQ(lookups[0].reason, "its own path");
}

TEST(LoaderLogTest, OtherLinesArePassedOver) {
  EXPECT_TRUE(Parse("").empty());
  EXPECT_TRUE(Parse("Hello:\tfile=libcuda.so.1 [0];  needed by ./app [0]\nno colon\n:\t\n"
                    "   1:\tcalling init: /lib/libm.so.6\n   1:\t  trying file=\n   1:\tfile=\n")
                  .empty());
}

}  // namespace
}  // namespace farcall::cli
