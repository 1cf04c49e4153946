// SPDX-License-Identifier: Apache-2.0
// A session's contexts: which one a record names, and when what it frees has been freed.
#include "server/state/objects/contexts.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/unit/server/state/stream_driver.h"

namespace farcall::server {
namespace {

const CUstream kStream = reinterpret_cast<CUstream>(0x10);

class ContextsTest : public ::testing::Test {
 protected:
  ~ContextsTest() override { completion_.Stop(); }
  ContextState& Make(uint16_t slot, int device = 0) {
    ContextState& context = contexts_.Make(slot);
    context.native = reinterpret_cast<CUcontext>(uint64_t{slot});
    context.device = device;
    table_.Set(slot, 1, HandleTable::State::kLive, context.native);
    return context;
  }
  CUresult Find(uint16_t slot, bool may_come = false) {
    RecordHeader header{};
    header.context = slot;
    found_ = nullptr;
    stalled_ = false;
    return contexts_.Find(header, may_come, &found_, &stalled_);
  }
  void Finish() {
    completion_.Kick();
    while (!completion_.idle()) std::this_thread::yield();
  }

  StreamDriver driver_;
  const DriverApi api_ = driver_.Api();
  NoCharges broker_;
  Mirrors mirrors_{api_, broker_};
  MirrorReports reports_{mirrors_, [](std::span<const std::byte>) {}};
  HandleTable table_;
  std::vector<std::pair<uint16_t, uint64_t>> freed_;
  ContextState* found_ = nullptr;
  bool stalled_ = false;
  Completion completion_{api_, [] {}};
  Streams streams_{api_, completion_, reports_, nullptr};
  Contexts contexts_{api_, table_, streams_, nullptr,
                     [this](uint16_t slot, uint64_t epoch) { freed_.emplace_back(slot, epoch); }};
};

TEST_F(ContextsTest, ARecordNamesTheNewestLifeOfItsSlot) {
  Make(3);
  ContextState& second = Make(3);
  EXPECT_EQ(Find(3), CUDA_SUCCESS);
  EXPECT_EQ(found_, &second);
  EXPECT_FALSE(stalled_);
}

TEST_F(ContextsTest, ARecordWaitsForAContextInTheMaking) {
  table_.Set(3, 1, HandleTable::State::kPending, nullptr);
  EXPECT_EQ(Find(3), CUDA_SUCCESS);
  EXPECT_TRUE(stalled_);
  EXPECT_EQ(Find(4, true), CUDA_SUCCESS) << "a helper may be about to make it";
  EXPECT_TRUE(stalled_);
}

TEST_F(ContextsTest, AContextThatIsNotThereIsAnError) {
  EXPECT_EQ(Find(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(Find(3), CUDA_ERROR_INVALID_CONTEXT);
  Make(3);
  table_.Kill(3, 1);
  EXPECT_EQ(Find(3), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  table_.Set(4, 1, HandleTable::State::kFailed, nullptr);
  EXPECT_EQ(Find(4), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextsTest, OfEachDeviceOneContextThatLivesIsNamed) {
  Make(1, 0);
  Make(2, 1);
  Make(3, 2);
  table_.Kill(3, 1);
  const auto live = contexts_.Live();
  ASSERT_EQ(live.size(), 2u);
  EXPECT_EQ(live.at(0), reinterpret_cast<CUcontext>(1));
  EXPECT_EQ(live.at(1), reinterpret_cast<CUcontext>(2));
}

TEST_F(ContextsTest, FreesAreToldOfOnceTheWorkBeforeThemIsDone) {
  ContextState& context = Make(3);
  StreamState stream{streams_.NewKey(), kStream, &context};
  streams_.MarkActive(stream);
  driver_.Work(kStream);
  bool is_freed = false;
  contexts_.NoteFree(context, 7, [&] { is_freed = true; });
  contexts_.FenceNotedFrees();
  completion_.Poll(true);
  EXPECT_FALSE(is_freed);
  driver_.Done(kStream);
  Finish();
  EXPECT_TRUE(is_freed);
  EXPECT_EQ(freed_, (std::vector<std::pair<uint16_t, uint64_t>>{{3, 7}}));
}

TEST_F(ContextsTest, FreesOfAnIdleContextAreToldOfAtOnce) {
  ContextState& context = Make(3);
  contexts_.NoteFree(context, 1, {});
  contexts_.NoteFree(context, 2, {});
  contexts_.FenceNotedFrees();
  EXPECT_EQ(freed_, (std::vector<std::pair<uint16_t, uint64_t>>{{3, 2}}));
  contexts_.FenceNotedFrees();
  EXPECT_EQ(freed_.size(), 1u);
}

TEST_F(ContextsTest, AFenceOfADeviceWaitsForItsContextsAlone) {
  ContextState &here = Make(1, 0), &elsewhere = Make(2, 1);
  StreamState near{streams_.NewKey(), kStream, &here};
  StreamState far{streams_.NewKey(), reinterpret_cast<CUstream>(0x20), &elsewhere};
  streams_.MarkActive(near);
  streams_.MarkActive(far);
  driver_.Work(near.native);
  driver_.Work(far.native);
  bool is_done = false;
  contexts_.FenceDevice(0, [&] { is_done = true; });
  completion_.Poll(true);
  EXPECT_FALSE(is_done);
  driver_.Done(near.native);
  Finish();
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace farcall::server
