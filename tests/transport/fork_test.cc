// SPDX-License-Identifier: Apache-2.0
// A forked child lets the link go without a word; the parent's goes on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/transport/link_harness.h"

namespace farcall::test {
namespace {

class ForkTest : public testing::TestWithParam<std::string> {};

TEST_P(ForkTest, AnAbandoningChildLeavesTheParentsLinkAlive) {
  Pair pair(FreshUrl(GetParam()));
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(pair.client->link->OpenLanes().ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.client->Send(100).ok());
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pair.client->link->Abandon();
    pair.server->link->Abandon();
    pair.client->link.reset();
    pair.server->link.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::vector<std::byte> bytes = Pattern(3u << 20, 1);
  pair.server->recorder.Expect(1, bytes.size());
  ASSERT_TRUE(pair.client->link->SendTransfer(1, 0, bytes, Link::Retain::kBorrowed).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.client->Send(100).ok());
  ASSERT_TRUE(pair.server->recorder.Until([&] { return pair.server->recorder.frames == 200; }));
  EXPECT_EQ(pair.server->recorder.wrong_frames, 0u);
  EXPECT_EQ(pair.client->recorder.detached + pair.server->recorder.detached, 0);
}

// Not over inproc://, which has no descriptor that a child could let go.
INSTANTIATE_TEST_SUITE_P(Transports, ForkTest, testing::Values("tcp://127.0.0.1:0", "shm://suite"),
                         [](const auto& info) { return UrlTestName(info.param); });

}  // namespace
}  // namespace farcall::test
