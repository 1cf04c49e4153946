// SPDX-License-Identifier: Apache-2.0
// Estimates: learnt, of a batch's parts, and bounded in number.
#include "quota/scheduling/cost_model.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/quota/properties.h"

namespace farcall::quota {
namespace {

TEST(CostModel, GuessesTheUnknownAndKnowsWhatItSaw) {
  CostModel model;
  EXPECT_FALSE(model.Predict(7).is_known);
  EXPECT_EQ(model.Predict(7).mean_ns, kMillisecond);
  model.Learn(7, 50000);
  EXPECT_TRUE(model.Predict(7).is_known);
  EXPECT_EQ(model.Predict(7).mean_ns, 50000);
}

TEST(CostModel, FollowsAChange) {
  CostModel model;
  model.Learn(1, 1000);
  for (int i = 0; i < 40; ++i) model.Learn(1, 9000);
  EXPECT_NEAR(model.Predict(1).mean_ns, 9000, 50);
  EXPECT_NEAR(model.Predict(1).p95_ns, 9000, 500);
}

TEST(CostModel, PutsTheHighQuantileAboveTheMean) {
  CostModel model;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) model.Learn(1, 1000 + static_cast<Ns>(random() % 9000));
  EXPECT_GT(model.Predict(1).p95_ns, 8000);
  EXPECT_LT(model.Predict(1).p95_ns, 10001);
}

TEST(CostModel, LaysWhatABatchMissedOnTheHeavyParts) {
  CostModel model;
  model.Learn(1, 1000);
  model.Learn(2, 3000);
  BatchPart parts[] = {{1, 1}, {2, 1}};
  model.LearnBatch(parts, 8000);
  EXPECT_NEAR(model.Predict(1).mean_ns, 1080, 1);  // a fifth of the 4000 missed, 1 : 9
  EXPECT_NEAR(model.Predict(2).mean_ns, 3720, 1);
}

TEST(CostModel, LearnsFromBatchesAlone) {
  CostModel model;
  std::mt19937 random(2);
  for (int i = 0; i < 4000; ++i) {
    auto small = static_cast<uint32_t>(random() % 20);
    auto large = static_cast<uint32_t>(random() % 3);
    BatchPart parts[] = {{1, small}, {2, large}};
    model.LearnBatch(parts, small * 20000 + large * 800000);
  }
  EXPECT_NEAR(static_cast<double>(model.Predict(1).mean_ns), 20000, 4000);
  EXPECT_NEAR(static_cast<double>(model.Predict(2).mean_ns), 800000, 80000);
}

TEST(CostModel, KeepsItsSizeAndTheNewest) {
  CostModel model(100);
  for (uint64_t key = 0; key < 100000; ++key) {
    model.Learn(key, 10);
    ASSERT_LE(model.size(), 100u);
  }
  EXPECT_TRUE(model.Predict(99999).is_known);
}

// A prediction lies within what was measured.
RC_GTEST_PROP(CostModel, PredictsBetweenTheExtremes, ()) {
  auto samples = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<Ns>>(rc::gen::inRange<Ns>(0, 10 * kSecond)));
  CostModel model;
  for (Ns sample : samples) model.Learn(3, sample);
  auto [least, most] = std::minmax_element(samples.begin(), samples.end());
  RC_ASSERT(model.Predict(3).mean_ns >= *least - 1);
  RC_ASSERT(model.Predict(3).mean_ns <= *most);
  RC_ASSERT(model.Predict(3).p95_ns >= *least - 1);
  RC_ASSERT(model.Predict(3).p95_ns <= *most);
}

}  // namespace
}  // namespace farcall::quota
