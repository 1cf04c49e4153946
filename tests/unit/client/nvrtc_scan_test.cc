// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "client-shim/nvrtc/scan.h"

namespace farcall::nvrtc_client {
namespace {

// Names with their delimiters, by commas.
std::string Found(const std::string& text) {
  std::string all;
  for (const NamedFile& named : ScanIncludes(text)) {
    all += (all.empty() ? "" : ",") + text.substr(named.at, named.length + 2);
    EXPECT_EQ(named.quoted, text[named.at] == '"');
  }
  return all;
}

TEST(NvrtcScan, DirectivesNameFilesHoweverTheyAreSpaced) {
  EXPECT_EQ(Found("#include <a.h>\n  #  include\t\"b/c.h\"\n"), "<a.h>,\"b/c.h\"");
  EXPECT_EQ(Found("#if 0\n#include <a.h>\n#else\n#include<b.h>\n#endif"), "<a.h>,<b.h>");
  EXPECT_EQ(Found("/* first */ #include <a.h>"), "<a.h>");
}

TEST(NvrtcScan, QuestionsNameFilesToo) {
  EXPECT_EQ(Found("#if __has_include(<a.h>) && !__has_include ( \"b.h\" )\n#endif"),
            "<a.h>,\"b.h\"");
}

TEST(NvrtcScan, CommentsStringsAndMacrosNameNone) {
  EXPECT_EQ(Found("// #include <a.h>\n/* \n#include <b.h>\n*/\n#include WHICH\n"), "");
  EXPECT_EQ(Found("// goes on \\\n#include <a.h>\n"), "");
  EXPECT_EQ(Found("auto a = \"\\\"\\\n#include <a.h>\\\n\";\n"), "");
  EXPECT_EQ(Found("auto a = R\"x(\n#include <a.h>\n)\"\n)x\";\n#include <b.h>\n"), "<b.h>");
  EXPECT_EQ(Found("int a; #include <a.h>\n#includes <b.h>\n#include_next <c.h>\n"), "");
  EXPECT_EQ(Found("#error it doesn't\n#include <a.h>\n"), "<a.h>");
}

TEST(NvrtcScan, WhatIsCutOffIsLeftAlone) {
  for (const char* text :
       {"#", "#include", "#include <", "#include \"a", "#include <a\n>", "/*", "//", "//\\", "\"",
        "\"\\", "R\"", "R\"x(", "__has_include", "__has_include("})
    EXPECT_EQ(Found(text), "") << text;
}

}  // namespace
}  // namespace farcall::nvrtc_client
