// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/overhead_meter.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

constexpr int kWorker = 10;
constexpr uint32_t kPid = 4711;

class OverheadMeterTest : public testing::Test {
 protected:
  OverheadMeterTest() { meter_.Join(kWorker, kPid); }

  uint64_t question_ = 0;
  OverheadMeter meter_{
      1,
      false,
      {[](int, int) -> uint64_t { return 0; }, [](int, int, uint64_t) { return quota::Charge(); },
       [this](uint64_t id) {
         question_ = id;
         return true;
       }}};
};

TEST_F(OverheadMeterTest, CountsAProcessByTheSumOfItsParts) {
  meter_.Tick(0);
  meter_.OnMessage(control::ProcessMemory{.device = 0, .pid = kPid, .bytes = 300});
  meter_.OnMessage(control::ProcessMemory{.device = 0, .pid = kPid, .bytes = 40});
  meter_.OnMessage(control::ProcessMemory{.device = 0, .pid = kPid + 1, .bytes = 5});
  EXPECT_EQ(meter_.bytes(kWorker, 0), 0u) << "the answer is not complete";
  meter_.OnMessage(control::ProcessMemoryEnd{.id = question_, .why_unknown = {}});
  EXPECT_EQ(meter_.bytes(kWorker, 0), 340u);
  EXPECT_EQ(meter_.uncharged_bytes(0), 340u);
}

TEST_F(OverheadMeterTest, ALateAnswerIsNoPartOfTheNextOne) {
  meter_.Tick(0);
  const uint64_t late = question_;
  meter_.Tick(60 * quota::kSecond);
  ASSERT_NE(question_, late);
  meter_.OnMessage(control::ProcessMemory{.device = 0, .pid = kPid, .bytes = 300});
  meter_.OnMessage(control::ProcessMemoryEnd{.id = late, .why_unknown = {}});
  EXPECT_EQ(meter_.bytes(kWorker, 0), 0u);
  meter_.OnMessage(control::ProcessMemory{.device = 0, .pid = kPid, .bytes = 300});
  meter_.OnMessage(control::ProcessMemoryEnd{.id = question_, .why_unknown = {}});
  EXPECT_EQ(meter_.bytes(kWorker, 0), 300u);
}

TEST_F(OverheadMeterTest, SaysWhyAnAnswerIsIncomplete) {
  meter_.Tick(0);
  control::ProcessMemoryEnd end{.id = question_, .why_unknown = {}};
  end.why_unknown = std::string("device 0: code 3");
  meter_.OnMessage(end);
  EXPECT_EQ(meter_.why_unknown(), "device 0: code 3");
}

}  // namespace
}  // namespace farcall::server
