// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/worker/sandbox/system_calls.h"

namespace farcall::server {
namespace {

// In a child: what is denied stays denied for good.
int Denied() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (!FilterSystemCalls({}).ok()) return 10;
  execl("/bin/true", "true", nullptr);
  if (errno != ENOSYS) return 11;
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 || errno != ENOSYS) return 12;
  int ends[2];
  if (pipe(ends) != 0)  // the ordinary goes on
    return 13;
  if (fork() >= 0 || errno != ENOSYS) return 14;
  return 0;
}

TEST(SandboxTest, RunsNothingElseAndLooksIntoNobody) {
  pid_t child = fork();
  if (child == 0) _exit(Denied());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace farcall::server
