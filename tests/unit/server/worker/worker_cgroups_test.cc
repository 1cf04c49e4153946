// SPDX-License-Identifier: Apache-2.0
// What is written where, in a folder that stands for the kernel's.
#include "server/worker/sandbox/worker_cgroups.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
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
    for (const std::string& folder : folders) EXPECT_TRUE(fs::exists(folder + own + "/vgpu-1"));
    EXPECT_TRUE(EndCgroup(groups.Drop("a")));
    EXPECT_FALSE(fs::exists(mount_ + "/cpu" + own + "/vgpu-1"));
  }
  EXPECT_FALSE(fs::exists(mount_ + "/memory" + own));
}

TEST_F(WorkerCgroupsTest, NothingIsDoneWhereNothingIsWanted) {
  WorkerCgroups groups(0);
  EXPECT_FALSE(groups.is_wanted());
  EXPECT_TRUE(groups.Add("a", getpid(), 0).ok());
  EXPECT_TRUE(groups.Drop("a").empty());
}

// Where the kernel's hierarchy of version 2, or version 1's of that controller, may be written.
std::string RealMount(const std::string& controller) {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, path, kind, options;
    words >> device >> path >> kind >> options;
    const bool is_it =
        controller.empty()
            ? kind == "cgroup2"
            : kind == "cgroup" &&
                  ("," + options + ",").find("," + controller + ",") != std::string::npos;
    if (is_it && access(path.c_str(), W_OK) == 0) return path;
  }
  return "";
}

// A process in the group and one that it has made; both hold `end`. Returns the first.
pid_t StartTwo(const std::vector<std::string>& folders, int end) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t first = fork();
  if (first == 0) {
    for (const std::string& folder : folders)
      std::ofstream(folder + "/cgroup.procs") << getpid() << std::flush;
    if (fork() == 0) (void)!write(ready[1], "x", 1);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 0;
  (void)!read(ready[0], &byte, 1);
  close(ready[0]);
  close(end);
  return first;
}

class RealCgroupTest : public testing::TestWithParam<const char*> {};

TEST_P(RealCgroupTest, WhatIsInAGroupDiesWithIt) {
  const std::string mount = RealMount(GetParam());
  if (mount.empty()) GTEST_SKIP() << "no such hierarchy here, or it may not be written";
  const std::string folder = mount + "/farcall-test-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t first = StartTwo({folder}, ends[1]);
  kill(first, SIGKILL);  // the worker ends; what it has made stays
  waitpid(first, nullptr, 0);
  EXPECT_FALSE(rmdir(folder.c_str()) == 0) << "somebody is in it";
  while (!EndCgroup({folder})) usleep(1000);
  char rest = 0;
  EXPECT_EQ(read(ends[0], &rest, 1), 0) << "nobody holds the pipe";
  close(ends[0]);
  EXPECT_FALSE(fs::exists(folder));
}

INSTANTIATE_TEST_SUITE_P(Hierarchies, RealCgroupTest, testing::Values("", "freezer", "memory"),
                         [](const auto& hierarchy) {
                           const std::string name = hierarchy.param;
                           return name.empty() ? "second" : name;
                         });

}  // namespace
}  // namespace farcall::server
