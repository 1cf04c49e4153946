// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/session_table.h"

#include <gtest/gtest.h>

#include "tests/unit/server/supervisor/sessions/session_parts_case.h"

namespace farcall::server {
namespace {

constexpr int kNone = SessionTable::kNoDevice;

TEST(SessionTable, FindsASessionByItsDescriptorItsIdAndItsProcesses) {
  SessionTable table;
  WorkerSession& added = table.Add(SessionOf(10, "a"));
  table.Add(SessionOf(11, "b"));
  table.AddProcess(20, 10);
  EXPECT_EQ(table.Find(10), &added);
  EXPECT_EQ(table.Find(added.session), &added);
  EXPECT_EQ(table.FindByProcess(20), 10);
  EXPECT_EQ(table.Find(12), nullptr);
  EXPECT_EQ(table.Find(SessionId{}), nullptr);
  EXPECT_FALSE(table.FindByProcess(10).has_value());
  table.RemoveProcess(20);
  EXPECT_FALSE(table.FindByProcess(20).has_value());
  table.Remove(10);
  EXPECT_EQ(table.Find(10), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

TEST(SessionTable, CountsThoseOfAVgpuAGroupAndATenant) {
  SessionTable table;
  EXPECT_TRUE(table.IsOnlyVgpu("a")) << "nobody is here";
  for (int control : {1, 2}) {
    WorkerSession& session = table.Add(SessionOf(control, "a"));
    session.mps_group = "server";
    session.counted = "ada";
  }
  EXPECT_TRUE(table.IsOnlyVgpu("a"));
  table.Add(SessionOf(3, "b"));
  EXPECT_FALSE(table.IsOnlyVgpu("a"));
  EXPECT_TRUE(table.HasVgpu("b"));
  EXPECT_FALSE(table.HasVgpu("c"));
  EXPECT_EQ(table.CountInGroup("server"), 2u);
  EXPECT_EQ(table.CountCounted("ada"), 2u);
  EXPECT_EQ(table.CountCounted("bob"), 0u);
}

TEST(SessionTable, ASessionCountsItsOwnDevicesFromZero) {
  SessionTable table;
  const WorkerSession& session = table.Add(SessionOf(5, "a", {2, 0}));
  EXPECT_EQ(SessionTable::HostDevice(session, 0), 2);
  EXPECT_EQ(SessionTable::HostDevice(session, 1), 0);
  EXPECT_EQ(table.SessionDevice(5, 2), 0);
  EXPECT_EQ(table.SessionDevice(5, 0), 1);
  for (int stranger : {2, -1, -2, 1 << 30}) {
    EXPECT_EQ(SessionTable::HostDevice(session, stranger),
              stranger == quota::kHostMemory ? quota::kHostMemory : kNone);
  }
  EXPECT_EQ(table.SessionDevice(5, 1), kNone);
  EXPECT_EQ(table.SessionDevice(5, quota::kHostMemory), quota::kHostMemory);
}

}  // namespace
}  // namespace farcall::server
