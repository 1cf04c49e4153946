// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/retained_objects.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "server/state/objects/context_state.h"

namespace farcall::server {
namespace {

// An event's state, seen from outside.
struct Event {
  EventState* state = new EventState;
  std::shared_ptr<TimedEvent> timed = state->timed;
  bool is_deleted() const { return timed.use_count() == 1; }
};

TEST(RetainedObjects, BytesAndObjectsLiveAsLongAsTheSession) {
  auto retained = std::make_unique<RetainedObjects>();
  std::array<std::byte, 3> source{std::byte{1}, std::byte{2}, std::byte{3}};
  std::byte* kept = retained->KeepBytes(source);
  source = {};
  EXPECT_EQ(kept[2], std::byte{3});
  auto object = std::make_shared<int>(7);
  retained->Keep(object);
  EXPECT_EQ(object.use_count(), 2);
  retained.reset();
  EXPECT_EQ(object.use_count(), 1);
}

TEST(RetainedObjects, ARetiredEventHasNoTimesAndGoesWithTheSession) {
  auto retained = std::make_unique<RetainedObjects>();
  Event event;
  event.timed->native = reinterpret_cast<CUevent>(1);
  retained->Retire(HandleKind::kEvent, event.state);
  EXPECT_EQ(event.timed->native, nullptr);
  retained->DeleteReplaced();
  EXPECT_FALSE(event.is_deleted()) << "another thread may look at it";
  retained.reset();
  EXPECT_TRUE(event.is_deleted());
}

TEST(RetainedObjects, WhatAnotherLifeHasReplacedGoesEarlier) {
  RetainedObjects retained;
  Event event;
  EXPECT_FALSE(retained.has_replaced());
  retained.RetireReplaced(HandleKind::kEvent, event.state);
  retained.RetireReplaced(HandleKind::kEvent, nullptr);
  EXPECT_TRUE(retained.has_replaced());
  EXPECT_FALSE(event.is_deleted());
  retained.DeleteReplaced();
  EXPECT_TRUE(event.is_deleted());
  EXPECT_FALSE(retained.has_replaced());
}

TEST(RetainedObjects, IsFullAtItsBound) {
  RetainedObjects retained;
  for (size_t i = 0; i < RetainedObjects::kMaxReplaced; ++i) {
    EXPECT_FALSE(retained.full());
    retained.RetireReplaced(HandleKind::kFunction, new FunctionState);
  }
  EXPECT_TRUE(retained.full());
  retained.DeleteReplaced();
  EXPECT_FALSE(retained.full());
}

}  // namespace
}  // namespace farcall::server
