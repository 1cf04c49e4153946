// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/handles.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace farcall::client {
namespace {

TEST(HandleTable, FindsWhatIsLiveAndTellsStaleFromUnknown) {
  HandleTable table(HandleKind::kStream);
  int object = 0;
  void* found = nullptr;
  uint64_t handle = table.New(&object);
  EXPECT_EQ(table.Find(handle, &found), HandleState::kLive);
  EXPECT_EQ(found, &object);
  EXPECT_TRUE(table.Free(handle));
  EXPECT_FALSE(table.Free(handle));
  EXPECT_EQ(table.Find(handle, &found), HandleState::kStale);
  EXPECT_EQ(table.Find(handle + 1, &found), HandleState::kUnknown);
  EXPECT_EQ(table.Find(0, &found), HandleState::kUnknown);
  EXPECT_EQ(table.Find(handle | 1ull << 60, &found), HandleState::kUnknown);
}

TEST(HandleTable, AnotherKindsHandleIsUnknown) {
  HandleTable streams(HandleKind::kStream), events(HandleKind::kEvent);
  void* found = nullptr;
  streams.New(nullptr);
  EXPECT_EQ(streams.Find(events.New(nullptr), &found), HandleState::kUnknown);
}

TEST(HandleTable, AReusedIndexHasAnotherGeneration) {
  HandleTable table(HandleKind::kEvent);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    uint64_t handle = table.New(nullptr);
    EXPECT_TRUE(seen.insert(handle).second);
    EXPECT_LT(SplitHandle(handle).index, 200u);  // freed indices come back
    table.Free(handle);
  }
}

TEST(HandleTable, AFormerObjectIsGivenOnceToTheNextHandleOfItsSlot) {
  HandleTable table(HandleKind::kEvent);
  std::set<void*> made;
  for (int i = 0; i < 1000; ++i) {
    uint64_t handle = table.New(nullptr);
    void* object = table.TakeFormer(handle);
    EXPECT_EQ(table.TakeFormer(handle), nullptr);
    if (object == nullptr) {
      object = new int;
      made.insert(object);
    }
    void* found = &table;
    EXPECT_EQ(table.Find(handle, &found), HandleState::kLive);
    EXPECT_EQ(found, nullptr);  // not before it is set
    table.SetObject(handle, object);
    table.Free(handle);
  }
  EXPECT_LT(made.size(), 200u);
  for (void* object : made) delete static_cast<int*>(object);
}

TEST(HandleTable, ManyThreadsGetDistinctHandles) {
  HandleTable table(HandleKind::kEvent);
  std::vector<std::vector<uint64_t>> handles(8);
  std::vector<std::thread> threads;
  for (auto& mine : handles) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) mine.push_back(table.New(nullptr));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (auto& mine : handles) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 16000u);
}

TEST(HandleTable, FreesWhatACallerPicks) {
  HandleTable table(HandleKind::kStream);
  int gone = 0, kept = 0;
  uint64_t first = table.New(&gone), second = table.New(&kept), bare = table.New(nullptr);
  table.FreeIf([&](void* object) { return object == &gone; });
  void* object = nullptr;
  EXPECT_EQ(table.Find(first, &object), HandleState::kStale);
  EXPECT_EQ(table.Find(second, &object), HandleState::kLive);
  EXPECT_EQ(table.Find(bare, &object), HandleState::kLive);
  EXPECT_FALSE(table.Free(first));
}

TEST(HandleTable, EndsAtItsLastIndex) {
  HandleTable table(HandleKind::kContext);
  EXPECT_NE(table.New(nullptr, 2), 0u);
  uint64_t second = table.New(nullptr, 2);
  EXPECT_EQ(table.New(nullptr, 2), 0u);
  table.Free(second);
  EXPECT_NE(table.New(nullptr, 2), 0u);
}

}  // namespace
}  // namespace farcall::client
