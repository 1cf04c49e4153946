// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings/settings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace farcall::client {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/farcall-settings-XXXXXX";
    folder_ = mkdtemp(name);
    for (const char* variable : {"FARCALL_ENDPOINT", "FARCALL_MEM", "FARCALL_SYNC"})
      unsetenv(variable);
  }
  void TearDown() override { (void)!std::system(("rm -r " + folder_).c_str()); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  std::string folder_;
};

TEST_F(SettingsTest, TheEnvironmentBeatsTheUsersFileBeatsTheMachines) {
  std::string user = Write("user", "endpoint = 'tcp://user:1'\nsync = true\n");
  std::string machine = Write("machine", "endpoint = 'tcp://machine:1'\nmem = '2GiB'\n");
  Settings settings = Settings::Load({user, machine});
  EXPECT_EQ(settings.error(), "");
  EXPECT_EQ(settings.Find("endpoint").value, "tcp://user:1");
  EXPECT_EQ(settings.Find("endpoint").source, user);
  EXPECT_EQ(settings.Find("mem").value, "2GiB");
  EXPECT_EQ(settings.Find("mem").source, machine);
  EXPECT_EQ(settings.Find("sync").value, "1");
  EXPECT_EQ(settings.Find("token").value, "");
  setenv("FARCALL_ENDPOINT", "tcp://environment:1", 1);
  EXPECT_EQ(settings.Find("endpoint").value, "tcp://environment:1");
  EXPECT_EQ(settings.Find("endpoint").source, "FARCALL_ENDPOINT");
  unsetenv("FARCALL_ENDPOINT");
}

TEST_F(SettingsTest, FilesThatAreNotThereAreNoError) {
  EXPECT_EQ(Settings::Load({folder_ + "/none", folder_ + "/none/at/all"}).error(), "");
}

TEST_F(SettingsTest, SaysWhatIsWrongAndWhatWouldBeRight) {
  std::string typo = Write("typo", "endpiont = 'tcp://user:1'\n");
  EXPECT_EQ(Settings::Load({typo}).error(),
            typo + ": no setting 'endpiont'; the nearest is 'endpoint'");
  std::string list = Write("list", "mem = ['1GiB']\n");
  EXPECT_EQ(Settings::Load({list}).error(),
            list + ": setting 'mem' takes text, a whole number or a truth");
  std::string torn = Write("torn", "log = 'warn'\nmem = \n");
  EXPECT_EQ(Settings::Load({torn}).error().rfind(torn + ":2: ", 0), 0u)
      << Settings::Load({torn}).error();
  EXPECT_EQ(Settings::Load({folder_}).error(), folder_ + ": cannot be read: Is a directory");
}

}  // namespace
}  // namespace farcall::client
