// SPDX-License-Identifier: Apache-2.0
// Which processors are a device's, by a tree of files in sysfs's form, and that a thread stays
// there.
#include "server/worker/numa.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "server/device/numa_node.h"

namespace farcall::server {
namespace {

class NumaTest : public testing::Test {
 protected:
  NumaTest() {
    folder_ = testing::TempDir() + "farcall-numa-" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  ~NumaTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_ + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void Device(const std::string& id, const std::string& node) {
    Write("bus/pci/devices/" + id + "/numa_node", node + "\n");
  }
  void Node(int number, const std::string& processors) {
    Write("devices/system/node/node" + std::to_string(number) + "/cpulist", processors + "\n");
  }
  std::vector<int> Near(const std::string& id) const { return ProcessorsNear(folder_, id); }
  // Of a thread of its own, and of one that it makes afterwards; the first value is StayNear's.
  struct Seen {
    bool changed = false;
    std::vector<int> own, made;
  };
  Seen Stay(const std::vector<std::string>& ids) const {
    Seen seen;
    std::thread([&] {
      seen.changed = StayNear(folder_, ids);
      seen.own = Allowed();
      std::thread([&] { seen.made = Allowed(); }).join();
    }).join();
    return seen;
  }
  static std::vector<int> Allowed() {
    cpu_set_t set;
    std::vector<int> processors;
    EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) processors.push_back(i);
    return processors;
  }

  std::string folder_;
};

TEST_F(NumaTest, ADeviceHasTheProcessorsOfItsNode) {
  Device("0000:3b:00.0", "1");
  Node(1, "4-7,12,14-15");
  EXPECT_EQ(Near("0000:3B:00.0"), (std::vector<int>{4, 5, 6, 7, 12, 14, 15}));
}

TEST_F(NumaTest, WhatIsNotKnownHasNone) {
  Device("0000:3b:00.0", "-1");
  Device("0000:3c:00.0", "2");
  EXPECT_TRUE(Near("0000:3b:00.0").empty()) << "a device without a node";
  EXPECT_TRUE(Near("0000:3c:00.0").empty()) << "a node without a list";
  EXPECT_TRUE(Near("0000:3d:00.0").empty()) << "no such device";
  EXPECT_TRUE(Near("").empty());
  EXPECT_TRUE(Near("../../x").empty());
  for (const char* wrong : {"", "x", "3-", "5-2", "0-99999999", "-1", "1;2"}) {
    Node(2, wrong);
    EXPECT_TRUE(Near("0000:3c:00.0").empty()) << wrong;
  }
}

TEST_F(NumaTest, ADeviceIsOfTheNodeThatSysfsNames) {
  Device("0000:3b:00.0", "1");
  Device("0000:3c:00.0", "-1");
  EXPECT_EQ(NumaNodeOf(folder_, "0000:3B:00.0"), 1u);
  EXPECT_FALSE(NumaNodeOf(folder_, "0000:3c:00.0"));
  EXPECT_FALSE(NumaNodeOf(folder_, "../../x"));
}

TEST_F(NumaTest, AThreadAndThoseItMakesStayThere) {
  const std::vector<int> all = Allowed();
  if (all.size() < 2) GTEST_SKIP() << "this process has one processor";
  Device("0000:3b:00.0", "0");
  Device("0000:3c:00.0", "1");
  Node(0, std::to_string(all[0]) + ",1023");  // one that nobody here has is left out
  Node(1, std::to_string(all[1]));
  const Seen one = Stay({"0000:3b:00.0"});
  EXPECT_TRUE(one.changed);
  EXPECT_EQ(one.own, std::vector<int>{all[0]});
  EXPECT_EQ(one.made, one.own);
  EXPECT_EQ(Stay({"0000:3b:00.0", "0000:3c:00.0"}).own, (std::vector<int>{all[0], all[1]}));
}

TEST_F(NumaTest, NothingChangesWhereADeviceHasNoNodeOrNoProcessorIsAllowed) {
  const std::vector<int> all = Allowed();
  Device("0000:3b:00.0", "0");
  Node(0, "1023");
  EXPECT_FALSE(Stay({"0000:3b:00.0"}).changed);
  EXPECT_EQ(Stay({"0000:3b:00.0"}).own, all);
  Node(0, std::to_string(all[0]));
  EXPECT_EQ(Stay({"0000:3b:00.0", "0000:99:00.0"}).own, all) << "one is anywhere";
  EXPECT_FALSE(Stay({}).changed);
}

}  // namespace
}  // namespace farcall::server
