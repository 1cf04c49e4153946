// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/answers.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

class AnswersTest : public testing::Test {
 protected:
  void SetUp() override { ForgetAnswers(); }
  bool Known(const Question& question) { return FindAnswer(question, &found_); }
  std::vector<std::byte> found_;
};

TEST_F(AnswersTest, AreKeptByCallContextAndBody) {
  auto body = Bytes({1, 2}), other = Bytes({1, 3}), answer = Bytes({9});
  KeepAnswer({CallId::cuCtxGetLimit, 7, body}, answer, AnswerRenewals());
  EXPECT_TRUE(Known({CallId::cuCtxGetLimit, 7, body}));
  EXPECT_EQ(found_, answer);
  EXPECT_FALSE(Known({CallId::cuCtxGetLimit, 7, other}));
  EXPECT_FALSE(Known({CallId::cuCtxGetLimit, 8, body}));
  EXPECT_FALSE(Known({CallId::cuCtxGetCacheConfig, 7, body}));
}

TEST_F(AnswersTest, AChangeForgetsThemAndThoseUnderWay) {
  auto body = Bytes({1}), answer = Bytes({9});
  uint64_t before = AnswerRenewals();
  KeepAnswer({CallId::cuCtxGetLimit, 7, body}, answer, before);
  ForgetAnswers();
  EXPECT_FALSE(Known({CallId::cuCtxGetLimit, 7, body}));
  KeepAnswer({CallId::cuCtxGetLimit, 7, body}, answer, before);
  EXPECT_FALSE(Known({CallId::cuCtxGetLimit, 7, body})) << "asked before the change";
}

TEST_F(AnswersTest, HoldInTheStateTheyWereGivenIn) {
  auto about_five = Bytes({5, 0, 0, 0, 0, 0, 0, 0, 1}),
       about_six = Bytes({6, 0, 0, 0, 0, 0, 0, 0, 1});
  auto answer = Bytes({9}), later = Bytes({8});
  Question question = {CallId::cuCtxGetLimit, 7, about_five},
           other = {CallId::cuCtxGetLimit, 7, about_six};
  KeepAnswer(question, answer, AnswerRenewals());
  KeepAnswer(other, answer, AnswerRenewals());
  uint64_t before = AnswerRenewals();
  SetAnswerState(5, 1234);
  EXPECT_FALSE(Known(question));
  EXPECT_TRUE(Known(other));
  KeepAnswer(question, answer, before);
  EXPECT_FALSE(Known(question)) << "asked before the change";
  KeepAnswer(question, later, AnswerRenewals());
  EXPECT_TRUE(Known(question));
  EXPECT_EQ(found_, later);
  SetAnswerState(5, 0);
  EXPECT_TRUE(Known(question));
  EXPECT_EQ(found_, answer);
}

TEST_F(AnswersTest, AreBounded) {
  for (uint64_t context = 1; context <= 100000; ++context)
    KeepAnswer({CallId::cuCtxGetLimit, context, {}}, {}, AnswerRenewals());
  size_t known = 0;
  for (uint64_t context = 1; context <= 100000; ++context)
    known += Known({CallId::cuCtxGetLimit, context, {}});
  EXPECT_LE(known, 4096u);
  EXPECT_TRUE(Known({CallId::cuCtxGetLimit, 100000, {}}));
}

}  // namespace
}  // namespace farcall::client
