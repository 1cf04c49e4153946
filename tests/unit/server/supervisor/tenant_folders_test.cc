// SPDX-License-Identifier: Apache-2.0
// A tenant's folders: whoever was handed one uses it, and nobody else finds a way to it.
#include "server/supervisor/images/tenant_folders.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "FARCALL_TEST_KERNELS";

mode_t ModeOf(int fd) {
  struct stat status {};
  fstat(fd, &status);
  return status.st_mode & 07777;
}

class TenantFoldersTest : public ::testing::Test {
 protected:
  TenantFoldersTest() {
    std::string pattern = (fs::temp_directory_path() / "farcall-tenants-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    chmod(root_.c_str(), 0755);
    base_ = root_ + "/cache/server";
    unsetenv(kVariable);
  }
  ~TenantFoldersTest() override {
    unsetenv(kVariable);
    fs::remove_all(root_);
  }
  // What a process of that user returns; its umask is the strictest.
  static int As(uid_t user, const std::function<int()>& act) {
    const pid_t child = fork();
    if (child == 0) {
      umask(077);
      if (setgroups(0, nullptr) != 0 || setresgid(user, user, user) != 0 ||
          setresuid(user, user, user) != 0)
        _exit(99);
      _exit(act());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
  static std::string ByDescriptor(const OwnedDescriptor& folder, const std::string& name) {
    return "/proc/self/fd/" + std::to_string(folder.fd()) + "/" + name;
  }
  static int Write(const std::string& path) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0666);
    return file >= 0 && write(file, "kernel", 6) == 6 ? 0 : errno;
  }
  static int Read(const std::string& path) {
    char text[8];
    const int file = open(path.c_str(), O_RDONLY);
    return file >= 0 && read(file, text, sizeof(text)) == 6 ? 0 : errno;
  }

  std::string root_, base_;
};

TEST_F(TenantFoldersTest, EachTenantHasItsOwn) {
  OwnedDescriptor one = OpenTenantImages(base_, "one"), again = OpenTenantImages(base_, "one");
  OwnedDescriptor two = OpenTenantImages(base_, "two");
  struct stat first {
  }, second{}, other{};
  ASSERT_EQ(fstat(one.fd(), &first), 0);
  ASSERT_EQ(fstat(again.fd(), &second), 0);
  ASSERT_EQ(fstat(two.fd(), &other), 0);
  EXPECT_EQ(first.st_ino, second.st_ino);
  EXPECT_NE(first.st_ino, other.st_ino);
  for (const auto& entry : fs::directory_iterator(base_))
    EXPECT_EQ(entry.path().filename().string().size(), 32u) << "names reveal nobody";
}

TEST_F(TenantFoldersTest, AnOldFolderIsClosedToOthers) {
  fs::create_directories(base_);
  chmod(base_.c_str(), 0755);
  OwnedDescriptor images = OpenTenantImages(base_, "one");
  ASSERT_GE(images.fd(), 0);
  struct stat status {};
  ASSERT_EQ(stat(base_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(TenantFoldersTest, NoneIsTakenThroughALink) {
  fs::create_directories(root_ + "/elsewhere");
  fs::create_directories(root_ + "/cache");
  fs::create_directory_symlink(root_ + "/elsewhere", base_);
  EXPECT_LT(OpenTenantImages(base_, "one").fd(), 0);
  EXPECT_LT(OpenTenantImages("", "one").fd(), 0);
}

TEST_F(TenantFoldersTest, TheOperatorChoosesWhereKernelsLie) {
  OwnedDescriptor usual = OpenTenantKernels(base_, "one", kVariable, false);
  EXPECT_EQ(ModeOf(usual.fd()), 0700u);
  setenv(kVariable, (root_ + "/kernels").c_str(), 1);
  OwnedDescriptor chosen = OpenTenantKernels("", "one", kVariable, false);
  ASSERT_GE(chosen.fd(), 0);
  EXPECT_TRUE(fs::exists(root_ + "/kernels/tenants"));
  setenv(kVariable, "", 1);
  EXPECT_LT(OpenTenantKernels(base_, "one", kVariable, false).fd(), 0) << "none is wanted";
  EXPECT_LT(OpenTenantKernels(base_, "one", KernelVariable("dry"), false).fd(), 0);
}

TEST_F(TenantFoldersTest, ItsUsersShareKernelsAndOthersReachNone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root changes users";
  for (const bool is_chosen : {false, true}) {
    if (is_chosen) setenv(kVariable, (root_ + "/kernels").c_str(), 1);
    OwnedDescriptor own = OpenTenantKernels(base_, "one", kVariable, true);
    OwnedDescriptor others = OpenTenantKernels(base_, "two", kVariable, true);
    ASSERT_GE(own.fd(), 0);
    EXPECT_EQ(ModeOf(own.fd()), 0777u);
    const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(own.fd())).string();
    const bool has_acl = getxattr(path.c_str(), "system.posix_acl_default", nullptr, 0) > 0;
    EXPECT_EQ(As(700001, [&] { return Write(ByDescriptor(own, "kernel")); }), 0);
    if (has_acl) {
      EXPECT_EQ(As(700002, [&] { return Read(ByDescriptor(own, "kernel")); }), 0);
      EXPECT_EQ(As(700002, [&] { return Write(ByDescriptor(own, "kernel")); }), 0);
    }
    // Another tenant's user, with a descriptor of its own folder.
    EXPECT_EQ(As(700003, [&] { return Read(path + "/kernel"); }), EACCES);
    EXPECT_EQ(As(700003, [&] { return Write(path + "/new"); }), EACCES);
    const std::string name = fs::path(path).filename().string();
    const std::string way =
        is_chosen
            ? "../" + name + "/kernel"
            : "../../" + fs::path(path).parent_path().filename().string() + "/" + name + "/kernel";
    EXPECT_EQ(As(0, [&] { return Read(ByDescriptor(others, way)); }), 0) << way;
    EXPECT_EQ(As(700003, [&] { return Read(ByDescriptor(others, way)); }), EACCES) << way;
  }
}

}  // namespace
}  // namespace farcall::server
