// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/read_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace farcall::server {
namespace {

int Open(const std::string& path, int flags) {
  int file = open(path.c_str(), flags, 0600);
  if (file < 0) return errno;
  close(file);
  return 0;
}

TEST(ReadConfine, AThreadReadsItsFoldersAloneAndWritesNothing) {
  char folder[] = "/tmp/farcall-confine-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string mine = std::string(folder) + "/mine", other = std::string(folder) + "/other";
  ASSERT_EQ(mkdir(mine.c_str(), 0700), 0);
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  for (const std::string& in : {mine, other}) ASSERT_EQ(Open(in + "/file", O_CREAT | O_WRONLY), 0);
  Status status;
  std::thread([&] {
    status = ConfineReads({mine, std::string(folder) + "/nowhere"});
    if (!status.ok()) return;
    EXPECT_EQ(Open(mine + "/file", O_RDONLY), 0);
    EXPECT_EQ(Open(other + "/file", O_RDONLY), EACCES);
    EXPECT_EQ(Open("/etc/hostname", O_RDONLY), EACCES);
    EXPECT_EQ(Open(mine + "/file", O_WRONLY), EACCES);
    EXPECT_EQ(Open(mine + "/new", O_CREAT | O_WRONLY), EACCES);
    std::thread([&] { EXPECT_EQ(Open(other + "/file", O_RDONLY), EACCES); }).join();
  }).join();
  EXPECT_EQ(Open(other + "/file", O_RDONLY), 0);  // the others are as they were
  for (const std::string& in : {mine, other}) {
    unlink((in + "/file").c_str());
    rmdir(in.c_str());
  }
  rmdir(folder);
  if (!status.ok()) GTEST_SKIP() << status.message();
}

}  // namespace
}  // namespace farcall::server
