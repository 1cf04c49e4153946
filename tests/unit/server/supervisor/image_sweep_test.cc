// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/images/image_sweep.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKiB = 1024;

class ImageSweepTest : public ::testing::Test {
 protected:
  ImageSweepTest() {
    std::string pattern = (fs::temp_directory_path() / "farcall-sweep-XXXXXX").string();
    base_ = mkdtemp(pattern.data());
  }
  ~ImageSweepTest() override { fs::remove_all(base_); }

  // Used `age_s` seconds ago.
  std::string File(const std::string& name, uint64_t bytes, int age_s) {
    const fs::path path = fs::path(base_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << std::string(bytes, 'x');
    timespec times[2] = {};
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age_s;
    times[1] = times[0];
    utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
    return path.string();
  }
  std::string base_;
};

TEST_F(ImageSweepTest, WhatWasUsedLongestAgoGoesWhoeverOwnsIt) {
  const std::string oldest = File("one/a", 64 * kKiB, 400), newest = File("one/b", 64 * kKiB, 100);
  const std::string old = File("two/c", 64 * kKiB, 300),
                    recent = File("two/of-jit/d", 64 * kKiB, 200);
  EXPECT_EQ(SweepImages(base_, 256 * kKiB), 256 * kKiB);
  EXPECT_TRUE(fs::exists(oldest));
  EXPECT_LE(SweepImages(base_, 130 * kKiB), 130 * kKiB);
  EXPECT_FALSE(fs::exists(oldest));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(recent));
  EXPECT_TRUE(fs::exists(newest));
}

TEST_F(ImageSweepTest, OneOwnerCannotKeepAnothersImagesOutForGood) {
  const std::string theirs = File("victim/a", 64 * kKiB, 1);
  for (int i = 0; i < 20; ++i) File("greedy/" + std::to_string(i), 64 * kKiB, 1000 - i);
  EXPECT_LE(SweepImages(base_, 256 * kKiB), 256 * kKiB);
  EXPECT_TRUE(fs::exists(theirs)) << "it was used last";
}

TEST_F(ImageSweepTest, LinksLeadNowhere) {
  const fs::path outside = fs::path(base_).string() + "-outside";
  fs::create_directories(outside);
  std::ofstream(outside / "precious") << std::string(64 * kKiB, 'x');
  fs::create_directories(fs::path(base_) / "hostile");
  fs::create_directory_symlink(outside, fs::path(base_) / "hostile" / "folder");
  fs::create_symlink(outside / "precious", fs::path(base_) / "hostile" / "file");
  File("hostile/big", 64 * kKiB, 1);
  SweepImages(base_, 1);
  EXPECT_TRUE(fs::exists(outside / "precious"));
  EXPECT_FALSE(fs::exists(fs::path(base_) / "hostile" / "big"));
  fs::remove_all(outside);
}

TEST_F(ImageSweepTest, CompiledKernelsOfOneUserBecomeItsTenants) {
  const std::string image = File("one/a", 1, 1), kernel = File("one/of-jit/b", 1, 1),
                    deep = File("one/of-jit/0/c", 1, 1), outside = File("precious", 1, 1);
  for (const std::string& file : {image, kernel, deep, outside}) chmod(file.c_str(), 0600);
  chmod((base_ + "/one/of-jit/0").c_str(), 0700);
  fs::create_symlink(outside, fs::path(base_) / "one/of-jit/link");
  fs::create_hard_link(outside, fs::path(base_) / "one/of-jit/hard");
  auto mode = [](const std::string& file) { return fs::status(file).permissions(); };
  SweepImages(base_, 1 << 20);
  EXPECT_EQ(mode(kernel), fs::perms(0600)) << "workers are of one user";
  SweepImages(base_, 1 << 20, /*for_others=*/true);
  EXPECT_EQ(mode(kernel), fs::perms(0666));
  EXPECT_EQ(mode(deep), fs::perms(0666));
  EXPECT_EQ(mode(base_ + "/one/of-jit/0"), fs::perms(0777));
  EXPECT_EQ(mode(image), fs::perms(0600));
  EXPECT_EQ(mode(outside), fs::perms(0600));
}

TEST_F(ImageSweepTest, ASparseFileIsNoReasonToRemoveOthers) {
  const std::string image = File("one/a", 64 * kKiB, 100);
  fs::resize_file(File("two/sparse", 1, 1), uint64_t{1} << 40);
  SweepImages(base_, 256 * kKiB);
  EXPECT_TRUE(fs::exists(image));
}

}  // namespace
}  // namespace farcall::server
