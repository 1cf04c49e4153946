// SPDX-License-Identifier: Apache-2.0
// The disk cache: hits need no compiler, damage is noticed, two processes may write at once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ptx_cache_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = std::string(pattern) + "/nested/cache";
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  int Probe(bool with_compiler) const {
    std::string command =
        "FARCALL_PTXJIT=" + std::string(with_compiler ? FARCALL_PTXJIT_PATH : "/nowhere.so") + " " +
        FARCALL_CACHE_PROBE + " " + directory_ + (with_compiler ? "" : " 2>/dev/null");
    return WEXITSTATUS(system(command.c_str()));
  }
  fs::path OnlyFile() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(directory_)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }
  static void Damage(const fs::path& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    char byte = 0;
    file.get(byte);
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x40));
  }

  std::string root_, directory_;
};

TEST_F(CacheTest, ACachedKernelRunsWithoutTheCompiler) {
  EXPECT_EQ(Probe(false), 2);
  EXPECT_EQ(Probe(true), 0);
  EXPECT_EQ(Probe(false), 0);
}

TEST_F(CacheTest, ADamagedFileIsIgnoredAndReplaced) {
  ASSERT_EQ(Probe(true), 0);
  auto size = static_cast<std::streamoff>(fs::file_size(OnlyFile()));
  for (std::streamoff at :
       {std::streamoff{0}, std::streamoff{20}, std::streamoff{60}, size / 2, size - 1}) {
    Damage(OnlyFile(), at);
    EXPECT_EQ(Probe(false), 2) << at;
    ASSERT_EQ(Probe(true), 0) << at;
    EXPECT_EQ(Probe(false), 0) << at;
  }
}

TEST_F(CacheTest, ACutFileIsIgnored) {
  ASSERT_EQ(Probe(true), 0);
  fs::resize_file(OnlyFile(), fs::file_size(OnlyFile()) - 9);
  EXPECT_EQ(Probe(false), 2);
  EXPECT_EQ(Probe(true), 0);
}

TEST_F(CacheTest, AFileOthersMayWriteIsNotTrusted) {
  ASSERT_EQ(Probe(true), 0);
  fs::permissions(OnlyFile(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(Probe(false), 2);
}

}  // namespace
