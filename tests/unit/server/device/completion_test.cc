// SPDX-License-Identifier: Apache-2.0
// Watches: order within a stream, and copies before what implies them, on a device whose progress
// the test moves.
#include "server/device/completion.h"

#include <gtest/gtest.h>

#include <set>

namespace farcall::server {
namespace {

std::mutex g_mutex;
uint64_t g_events;
std::set<uint64_t> g_reached;

// Events are numbers; one is complete once the test says so.
DriverApi SteeredDriver() {
  std::lock_guard lock(g_mutex);
  g_events = 0;
  g_reached.clear();
  DriverApi api;
  api.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuEventCreate = [](CUevent* event, unsigned) {
    std::lock_guard lock(g_mutex);
    *event = reinterpret_cast<CUevent>(++g_events);
    return CUDA_SUCCESS;
  };
  api.cuEventRecord = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  api.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
  api.cuEventQuery = [](CUevent event) {
    std::lock_guard lock(g_mutex);
    return g_reached.count(reinterpret_cast<uint64_t>(event)) != 0 ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_NOT_READY;
  };
  return api;
}

void Reach(std::initializer_list<uint64_t> events) {
  std::lock_guard lock(g_mutex);
  g_reached.insert(events);
}

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() : api_(SteeredDriver()), completion_(api_, [] {}) {}
  void Add(uint64_t stream, bool bulk, const char* name) {
    ASSERT_EQ(
        completion_.Add(stream, nullptr, nullptr, bulk, [this, name](CUresult) { Note(name); }),
        CUDA_SUCCESS);
  }
  void Note(const char* name) {
    std::lock_guard lock(mutex_);
    order_.push_back(name);
  }
  // What was reached, once nothing is waiting.
  std::vector<std::string> Finish() {
    completion_.Kick();
    while (!completion_.idle()) std::this_thread::yield();
    std::lock_guard lock(mutex_);
    return order_;
  }
  DriverApi api_;
  std::mutex mutex_;
  std::vector<std::string> order_;
  Completion completion_;
};

TEST_F(CompletionTest, PassesAStreamsPointsInOrder) {
  Add(1, false, "first");   // event 1
  Add(1, false, "second");  // event 2
  Reach({2});
  EXPECT_FALSE(completion_.Poll(true)) << "the first has not been reached";
  Reach({1});
  EXPECT_EQ(Finish(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(CompletionTest, SendsTheCopiesThatACompletionImplies) {
  Add(1, true, "copy on 1");   // event 1
  Add(2, false, "wait on 2");  // event 2: implies the copy
  Add(3, true, "later copy");  // event 3
  Reach({1, 2, 3});
  EXPECT_FALSE(completion_.Poll(false))
      << "nothing may be told before the copy, which may not be sent here";
  std::vector<std::string> order = Finish();
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], "copy on 1");
  EXPECT_EQ(order[1], "wait on 2");
}

TEST_F(CompletionTest, TellsOthersThatTheyCameTooLate) {
  CUresult result = CUDA_ERROR_UNKNOWN;
  auto watch = completion_.Add(
      1, nullptr, nullptr, [this](CUresult) { Note("own"); }, &result);
  ASSERT_EQ(result, CUDA_SUCCESS);
  EXPECT_TRUE(completion_.Attach(watch, [this](CUresult) { Note("attached"); }));
  EXPECT_EQ(completion_.StatusOf(watch), CUDA_ERROR_NOT_READY);
  Reach({1});
  EXPECT_EQ(Finish(), (std::vector<std::string>{"own", "attached"}));
  EXPECT_FALSE(completion_.Attach(watch, [](CUresult) {}));
  EXPECT_EQ(completion_.StatusOf(watch), CUDA_SUCCESS);
}

TEST_F(CompletionTest, DrainsAContextOnlyOnceItsActionsHaveRun) {
  auto context = reinterpret_cast<CUcontext>(0x10);
  std::atomic<bool> may_return{false}, has_begun{false}, has_drained{false};
  bool returned_first = false;
  ASSERT_EQ(completion_.Add(1, context, nullptr, false,
                            [&](CUresult) {
                              has_begun = true;
                              while (!may_return) std::this_thread::yield();
                              returned_first = !has_drained;
                            }),
            CUDA_SUCCESS);
  Reach({1});
  completion_.Kick();
  while (!has_begun) std::this_thread::yield();
  std::thread drain([&] {
    completion_.Drain(context);
    has_drained = true;
  });
  for (int i = 0; i < 1000 && !has_drained; ++i) std::this_thread::yield();
  may_return = true;
  drain.join();
  Finish();
  EXPECT_TRUE(returned_first);
}

TEST_F(CompletionTest, HoldsAStreamAtAPointThatIsSignalled) {
  auto point = completion_.AddManual(1, nullptr, [this](CUresult) { Note("host function"); });
  Add(1, false, "behind");  // event 1
  Reach({1});
  EXPECT_FALSE(completion_.Poll(true));
  completion_.Signal(point);
  EXPECT_EQ(Finish(), (std::vector<std::string>{"host function", "behind"}));
}

}  // namespace
}  // namespace farcall::server
