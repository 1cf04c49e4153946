// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/worker_users.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace farcall::server {
namespace {

TEST(WorkerUsers, ReadsARange) {
  Result<UserRange> range = ParseUserRange("700000-700255");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->first, 700000u);
  EXPECT_EQ(range->count, 256u);
  EXPECT_EQ(ParseUserRange("700000")->count, 1u);
  for (const char* wrong : {"", "0-5", "5-4", "-7", "7-", "a-b", "7-8x", "1-4294967295",
                            "4294967290-4294967295", "1-99999999999"})
    EXPECT_EQ(ParseUserRange(wrong).status().code(), Code::kInvalid) << wrong;
}

TEST(WorkerUsers, GivesEachVgpuItsOwnAndRestsThem) {
  WorkerUsers users({700000, 3});
  EXPECT_EQ(*users.Take("a"), 700000u);
  EXPECT_EQ(*users.Take("b"), 700001u);
  EXPECT_EQ(*users.Take("b"), 700001u) << "of one vGPU";
  users.GiveBack("a");
  EXPECT_EQ(*users.Take("c"), 700002u) << "not the one just given back";
  EXPECT_EQ(*users.Take("d"), 700000u);
  users.GiveBack("b");
  Result<uid_t> none = users.Take("e");
  EXPECT_EQ(none.status().message(),
            "worker users: all 3 ids are in use; a wider --worker-users admits more");
  users.GiveBack("b");
  EXPECT_EQ(*users.Take("e"), 700001u);
}

TEST(WorkerUsers, WhatIsHeldForANameBecomesAVgpus) {
  WorkerUsers users({700000, 2});
  const uid_t held = *users.Take("warm 1");
  users.Rename("warm 1", "a");
  EXPECT_EQ(*users.Take("a"), held) << "its second worker";
  EXPECT_NE(*users.Take("warm 1"), held);
  users.GiveBack("a");
  EXPECT_FALSE(users.Take("b").ok());
  users.GiveBack("a");
  EXPECT_EQ(*users.Take("b"), held);
}

// In a child: it is that user alone, for good.
int Become() {
  if (!BecomeUser(700001).ok()) return 10;
  if (getuid() != 700001 || geteuid() != 700001 || getgid() != 700001 || getgroups(0, nullptr) != 0)
    return 11;
  if (setuid(0) == 0 || setgroups(0, nullptr) == 0) return 12;
  if (getenv("HOME") != nullptr) return 13;
  return BecomeUser(700002).ok() ? 14 : 0;
}

TEST(WorkerUsers, BecomesThatUserForGood) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  pid_t child = fork();
  if (child == 0) _exit(Become());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace farcall::server
