// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/shared_folders.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

class SharedFoldersTest : public testing::Test {
 protected:
  SharedFoldersTest() {
    char folder[] = "/tmp/farcall-shared-test-XXXXXX";
    parent_ = mkdtemp(folder);
  }
  ~SharedFoldersTest() override { fs::remove_all(parent_); }

  size_t Servers() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(parent_), {}));
  }

  std::string parent_;
};

TEST_F(SharedFoldersTest, AVgpusWorkersHaveOneAndOthersHaveAnother) {
  SharedFolders folders(parent_);
  const std::string a = folders.Add("a", {});
  EXPECT_EQ(fs::status(a).permissions(), fs::perms::owner_all);
  EXPECT_EQ(folders.Add("a", {}), a);
  EXPECT_NE(folders.Add("b", {}), a);
  EXPECT_EQ(folders.Drop("a"), "") << "one of its workers is left";
  EXPECT_EQ(folders.Drop("a"), a);
  EXPECT_EQ(folders.Drop("a"), "");
}

TEST_F(SharedFoldersTest, ItIsTheWorkersUsersOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  SharedFolders folders(parent_);
  struct stat status {};
  ASSERT_EQ(stat(folders.Add("a", 700000).c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 700000u);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(SharedFoldersTest, AServersFoldersGoWithIt) {
  {
    SharedFolders folders(parent_);
    std::ofstream(folders.Add("a", {}) + "/left") << "x";
    EXPECT_EQ(Servers(), 1u);
  }
  EXPECT_EQ(Servers(), 0u);
}

TEST_F(SharedFoldersTest, WhatAKilledServerLeftGoesWhenNobodyHoldsIt) {
  SharedFolders live(parent_);
  const std::string used = live.Add("a", {});
  fs::create_directories(parent_ + "/farcall-shared-dead/vgpu-1");
  std::ofstream(parent_ + "/farcall-shared-dead/vgpu-1/left") << "x";
  fs::create_directories(parent_ + "/of-somebody-else");
  RemoveDeadServers(parent_, 0);
  EXPECT_FALSE(fs::exists(parent_ + "/farcall-shared-dead"));
  EXPECT_TRUE(fs::exists(parent_ + "/of-somebody-else"));
  EXPECT_TRUE(fs::exists(used));
}

TEST_F(SharedFoldersTest, WithoutAPlaceThereIsNone) {
  SharedFolders folders(parent_ + "/nowhere");
  EXPECT_EQ(folders.Add("a", {}), "");
  EXPECT_EQ(folders.Drop("a"), "");
}

TEST_F(SharedFoldersTest, AFolderIsRemovedInSteps) {
  const std::string full = parent_ + "/full";
  fs::create_directories(full);
  for (int i = 0; i < 25; ++i) std::ofstream(full + "/" + std::to_string(i)) << "x";
  EXPECT_FALSE(RemoveFolder(full, 10));
  EXPECT_FALSE(RemoveFolder(full, 10));
  EXPECT_TRUE(RemoveFolder(full, 10));
  EXPECT_FALSE(fs::exists(full));
}

}  // namespace
}  // namespace farcall::server
