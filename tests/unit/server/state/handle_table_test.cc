// SPDX-License-Identifier: Apache-2.0
// Handle tables: generations, lies, look-ups beside creates.
#include "server/state/objects/handle_table.h"

#include <gtest/gtest.h>

#include <thread>

namespace farcall::server {
namespace {

using State = HandleTable::State;

TEST(HandleTable, FindsWhatWasSetUnderItsGenerationOnly) {
  auto table = std::make_unique<HandleTable>();
  int object = 0;
  EXPECT_EQ(table->Find(1, 1).state, State::kNever);
  ASSERT_TRUE(table->MayCreate(1, 1));
  table->Set(1, 1, State::kLive, &object);
  EXPECT_EQ(table->Find(1, 1).native, &object);
  EXPECT_FALSE(table->Find(1, 2).generation_matches);
  EXPECT_EQ(table->FindNewest(1).native, &object);
}

TEST(HandleTable, GivesADeadIndexToAnotherGenerationOnly) {
  auto table = std::make_unique<HandleTable>();
  int object = 0;
  table->Set(5, 1, State::kLive, &object);
  EXPECT_FALSE(table->MayCreate(5, 2)) << "still alive";
  table->Kill(5, 1);
  EXPECT_FALSE(table->MayCreate(5, 1));
  EXPECT_TRUE(table->MayCreate(5, 2));
  EXPECT_EQ(table->Find(5, 1).native, nullptr);
  table->Set(5, 2, State::kFailed, nullptr);
  EXPECT_TRUE(table->MayCreate(5, 2)) << "what never came to be may be tried again";
}

TEST(HandleTable, TakesIndicesFromOneAndOnlyNearThoseSeen) {
  auto table = std::make_unique<HandleTable>();
  EXPECT_FALSE(table->MayCreate(0, 1));
  EXPECT_FALSE(table->MayCreate(kMaxHandleIndex, 1));
  EXPECT_FALSE(table->MayCreate(kMaxHandleIndex + 1, 1));
  EXPECT_TRUE(table->MayCreate(4096, 1));
  EXPECT_FALSE(table->MayCreate(4097, 1));
  table->Set(4096, 1, State::kLive, nullptr);
  EXPECT_TRUE(table->MayCreate(8192, 1));
}

TEST(HandleTable, IsReadWithoutALockWhileItGrows) {
  auto table = std::make_unique<HandleTable>();
  constexpr uint32_t kCount = 20000;
  std::thread writer([&] {
    for (uint32_t i = 1; i <= kCount; ++i)
      table->Set(i, 1, State::kLive, reinterpret_cast<void*>(uint64_t{i}));
  });
  uint32_t seen = 0;
  while (seen < kCount) {
    HandleTable::Found found = table->Find(seen + 1, 1);
    if (found.state != State::kLive) continue;
    ASSERT_EQ(found.native, reinterpret_cast<void*>(uint64_t{seen} + 1));
    ++seen;
  }
  writer.join();
  uint32_t live = 0;
  table->ForEachLive([&](uint32_t, uint16_t, void*, void*) { ++live; });
  EXPECT_EQ(live, kCount);
}

}  // namespace
}  // namespace farcall::server
