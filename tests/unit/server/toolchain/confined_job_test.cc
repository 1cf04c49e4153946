// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/confined_job.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stddef.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <iterator>
#include <thread>

#include "tests/tools/hide_landlock.h"

namespace farcall::server {
namespace {

int Open(const char* path) {
  const int file = open(path, O_RDONLY);
  if (file >= 0) close(file);
  return file < 0 ? errno : 0;
}

TEST(ConfinedJob, EachJobReadsItsOwnFoldersAlone) {
  int passwd = 0, usr = -1;
  Status status = RunConfined({"/usr"}, false, [&] {
    passwd = Open("/etc/passwd");
    usr = Open("/usr/bin/env");
  });
  if (!status.ok()) GTEST_SKIP() << status.message();
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
    hidden = test::HideLandlock();
    refused = RunConfined({"/usr"}, false, [&] { ++runs; });
    trusted = RunConfined({"/usr"}, true, [&] { runs += 10; });
  }).join();
  if (!hidden) GTEST_SKIP() << "no seccomp here";
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
