// SPDX-License-Identifier: Apache-2.0
#include "proto/settings_file.h"

#include <gtest/gtest.h>

#include "proto/text_file.h"

namespace farcall {
namespace {

TEST(SettingsFile, HasValuesOfEachKind) {
  auto settings = ParseSettings(
      "text = 'a'\nnumber = -3\npart = 1.5\nflag = true\nlist = ['a', 'b']\nnone = [1]\n"
      "date = 1979-05-27\n[table]\nx = 1\n",
      "file");
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->at("text"), SettingValue("a"));
  EXPECT_EQ(settings->at("number"), SettingValue(int64_t{-3}));
  EXPECT_EQ(settings->at("part"), SettingValue(1.5));
  EXPECT_EQ(settings->at("flag"), SettingValue(true));
  EXPECT_EQ(settings->at("list"), SettingValue(std::vector<std::string>{"a", "b"}));
  for (const char* other : {"none", "date", "table"})
    EXPECT_EQ(settings->at(other), SettingValue()) << other;
}

TEST(SettingsFile, SaysInOneLineWhereItIsBroken) {
  for (const char* text : {"x = tcp://gpu-host:7717", "x = \"a\n", "x =", "[x", "x = 1\nx = 2",
                           "x = \"\xff\"", "x = \"\\x\x1b[2J\"", "\x01 = 1", "x = 1\n\n\t= 2"}) {
    Status broken = ParseSettings(text, "file").status();
    EXPECT_EQ(broken.code(), Code::kInvalid) << text;
    EXPECT_EQ(broken.message().rfind("file:", 0), 0u) << broken.message();
    EXPECT_EQ(broken.message().find_first_of("\n\x1b"), std::string::npos) << broken.message();
  }
}

TEST(TextFile, IsReadWholeOrNotAtAll) {
  EXPECT_EQ(*ReadTextFile("/dev/null"), "");
  EXPECT_EQ(ReadTextFile("/nonexistent/file").status().code(), Code::kUnavailable);
  EXPECT_EQ(ReadTextFile("/").status().message(), "Is a directory");
  EXPECT_EQ(ReadTextFile("/dev/zero", 5000).status().message(), "it has more than 5000 bytes");
}

}  // namespace
}  // namespace farcall
