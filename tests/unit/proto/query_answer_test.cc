// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/query_answer.h"

#include <gtest/gtest.h>

#include "proto/handshake/session_features.h"

namespace farcall {
namespace {

QueryAnswer Whole() {
  QueryAnswer answer;
  answer.welcome.features = FeatureBit(SessionFeature::kQuery);
  answer.welcome.server_host = "gpu7";
  answer.welcome.devices.resize(2);
  answer.welcome.devices[1].name = "a device";
  answer.free_bytes = {1ull << 40, 7};
  return answer;
}

TEST(QueryAnswerTest, ComesBackWhole) {
  const Result<QueryAnswer> got = DecodeQueryAnswer(Encode(Whole()));
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->welcome.devices[1].name, "a device");
  EXPECT_EQ(got->free_bytes, Whole().free_bytes);
  EXPECT_EQ(got->welcome.session, SessionId{});
}

TEST(QueryAnswerTest, IsAWelcomeToWhoReadsNoMore) {
  const Result<Welcome> got = DecodeWelcome(Encode(Whole()));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->server_host, "gpu7");
}

TEST(QueryAnswerTest, OfAServerThatBeginsASessionNothingIsFree) {
  Welcome welcome = Whole().welcome;
  welcome.features = 0;
  const Result<QueryAnswer> got = DecodeQueryAnswer(Encode(welcome));
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->free_bytes.empty());
}

TEST(QueryAnswerTest, IsRefusedUnlessItIsWhole) {
  const std::vector<std::byte> whole = Encode(Whole());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(DecodeQueryAnswer(std::span(whole).first(bytes)).status().code(), Code::kMalformed)
        << bytes;
  QueryAnswer other = Whole();
  other.free_bytes.push_back(1);
  EXPECT_EQ(DecodeQueryAnswer(Encode(other)).status().code(), Code::kMalformed)
      << "more than devices";
}

}  // namespace
}  // namespace farcall
