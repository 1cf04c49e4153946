// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/integrity.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace farcall::cuda_abi {
namespace {

std::string Hex(const std::array<uint8_t, 16>& digest) {
  std::string text;
  for (uint8_t byte : digest) {
    char pair[3];
    snprintf(pair, sizeof(pair), "%02x", byte);
    text += pair;
  }
  return text;
}

TEST(Integrity, DigestIsRfc1319s) {
  EXPECT_EQ(Hex(Md2("")), "8350e5a3e24c153df2275c9f80692773");
  EXPECT_EQ(Hex(Md2("a")), "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  EXPECT_EQ(Hex(Md2("message digest")), "ab4f496bfb2a530b219ff33031fe06b0");
  EXPECT_EQ(Hex(Md2("abcdefghijklmnopqrstuvwxyz")), "4e8ddff3650292ab5a4108c3aa47940b");
}

TEST(Integrity, AnswerOfACheckedVersionCoversEveryInput) {
  IntegrityInputs inputs;
  inputs.version = 130002;
  inputs.devices.resize(1);
  const auto base = IntegrityAnswer(inputs);
  IntegrityInputs other = inputs;
  other.thread_id = 1;
  EXPECT_NE(IntegrityAnswer(other), base);
  other = inputs;
  other.unix_seconds = 1;
  EXPECT_NE(IntegrityAnswer(other), base);
  other = inputs;
  other.devices[0].pci_bus = 1;
  EXPECT_NE(IntegrityAnswer(other), base);
  EXPECT_EQ(IntegrityAnswer(inputs), base);
}

TEST(Integrity, FixedVersionsDoNotDependOnTheProcess) {
  IntegrityInputs inputs;
  inputs.version = 130000;
  const auto first = IntegrityAnswer(inputs);
  inputs.process_id = 7;
  EXPECT_EQ(IntegrityAnswer(inputs), first);
}

}  // namespace
}  // namespace farcall::cuda_abi
