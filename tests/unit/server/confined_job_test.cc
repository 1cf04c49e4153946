// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/confined_job.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <iterator>
#include <thread>

namespace farcall::server {
namespace {

// For this thread and those it starts: a kernel that has never heard of Landlock.
bool HideLandlock() {
  constexpr unsigned kCreateRuleset = 444;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCreateRuleset, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int Open(const char* path) {
  const int file = open(path, O_RDONLY);
  if (file >= 0) {
    close(file);
  }
  return file < 0 ? errno : 0;
}

TEST(ConfinedJob, EachJobReadsItsOwnFoldersAlone) {
  int passwd = 0, usr = -1;
  Status status = RunConfined({"/usr"}, false, [&] {
    passwd = Open("/etc/passwd");
    usr = Open("/usr/bin/env");
  });
  if (!status.ok()) {
    GTEST_SKIP() << status.message();
  }
  EXPECT_EQ(passwd, EACCES);
  EXPECT_EQ(usr, 0);
  // The next one has other folders, and the caller keeps what it may.
  ASSERT_TRUE(RunConfined({"/etc"}, false, [&] { passwd = Open("/etc/passwd"); }).ok());
  EXPECT_EQ(passwd, 0);
  EXPECT_EQ(Open("/usr/bin/env"), 0);
}

TEST(ConfinedJob, WithoutLandlockNothingRunsAndTheKernelIsNamed) {
  bool hidden = false;
  int runs = 0;
  Status refused, trusted;
  std::thread([&] {
    hidden = HideLandlock();
    refused = RunConfined({"/usr"}, false, [&] { ++runs; });
    trusted = RunConfined({"/usr"}, true, [&] { runs += 10; });
  }).join();
  if (!hidden) {
    GTEST_SKIP() << "no seccomp here";
  }
  utsname kernel{};
  uname(&kernel);
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_NE(refused.message().find(kernel.release), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("--trust-tenants"), std::string::npos) << refused.message();
  EXPECT_EQ(refused.message().find('\n'), std::string::npos);
  EXPECT_TRUE(trusted.ok());
  EXPECT_EQ(runs, 10);
}

}  // namespace
}  // namespace farcall::server
