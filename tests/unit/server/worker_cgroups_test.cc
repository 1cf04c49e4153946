// SPDX-License-Identifier: Apache-2.0
// What is written where, in a folder that stands for the kernel's.
#include "server/worker/worker_cgroups.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

class WorkerCgroupsTest : public testing::Test {
 protected:
  WorkerCgroupsTest() {
    char folder[] = "/tmp/farcall-cgroups-XXXXXX";
    mount_ = mkdtemp(folder);
  }
  ~WorkerCgroupsTest() override { fs::remove_all(mount_); }

  // The kernel makes these with each folder; here they come first, since the code makes none.
  void MakeGroup(const std::string& path, const std::string& controllers) {
    fs::create_directories(path);
    Put(path + "/cgroup.controllers", controllers);
    Put(path + "/cgroup.subtree_control", "");
    Put(path + "/cgroup.procs", "");
  }
  static void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string Get(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string mount_;
};

TEST_F(WorkerCgroupsTest, WithoutTheControllersItSaysWhichLacks) {
  MakeGroup(mount_ + "/user", "cpuset memory");
  WorkerCgroups groups(1 << 20);
  Status opened = groups.OpenAt(mount_, "/user");
  EXPECT_EQ(opened.code(), Code::kUnavailable);
  EXPECT_NE(opened.message().find("no controller 'pids'"), std::string::npos) << opened.message();
}

TEST_F(WorkerCgroupsTest, InTheRootControllersArePassedOnAndFoldersMade) {
  MakeGroup(mount_, "cpu io memory pids");
  WorkerCgroups groups(1 << 20);
  // A plain folder has no files of the kernel's, so the last step cannot be done.
  Status opened = groups.OpenAt(mount_, "/");
  EXPECT_EQ(Get(mount_ + "/cgroup.subtree_control"), "+memory +pids +cpu");
  EXPECT_TRUE(fs::exists(mount_ + "/farcall-workers-" + std::to_string(getpid())));
  EXPECT_EQ(opened.code(), Code::kUnavailable);
}

// A folder of its own for each controller; the kernel's files are not there, so it ends at the
// first of them.
TEST_F(WorkerCgroupsTest, OfVersionOneEachHierarchyHasItsFolders) {
  const std::string own = "/farcall-workers-" + std::to_string(getpid());
  {
    std::vector<std::string> folders;
    for (const char* name : {"/memory", "/pids", "/cpu"}) {
      folders.push_back(mount_ + name);
      fs::create_directories(folders.back());
    }
    // What a server left behind that was killed.
    fs::create_directories(folders[2] + "/farcall-workers-1999999999/vgpu-1");
    WorkerCgroups groups(1 << 20);
    ASSERT_TRUE(groups.OpenFirst(folders).ok());
    EXPECT_FALSE(fs::exists(folders[2] + "/farcall-workers-1999999999"));
    Status added = groups.Add("a", getpid(), 250);
    EXPECT_NE(added.message().find("/memory" + own + "/vgpu-1/memory.limit_in_bytes"),
              std::string::npos)
        << added.message();
    for (const std::string& folder : folders) {
      EXPECT_TRUE(fs::exists(folder + own + "/vgpu-1"));
    }
    groups.Drop("a");
    EXPECT_FALSE(fs::exists(mount_ + "/cpu" + own + "/vgpu-1"));
  }
  EXPECT_FALSE(fs::exists(mount_ + "/memory" + own));
}

TEST_F(WorkerCgroupsTest, NothingIsDoneWhereNothingIsWanted) {
  WorkerCgroups groups(0);
  EXPECT_FALSE(groups.is_wanted());
  EXPECT_TRUE(groups.Add("a", getpid(), 0).ok());
  groups.Drop("a");
}

}  // namespace
}  // namespace farcall::server
