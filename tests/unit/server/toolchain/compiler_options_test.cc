// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/compiler_options.h"

#include <gtest/gtest.h>

namespace farcall::server {
namespace {

std::vector<std::shared_ptr<const std::string>> Texts(const std::vector<std::string>& options) {
  std::vector<std::shared_ptr<const std::string>> texts;
  for (const std::string& option : options)
    texts.push_back(std::make_shared<const std::string>(option));
  return texts;
}

std::string Refused(Compiler compiler, const std::vector<std::string>& options) {
  return RefusedOption(compiler, Texts(options), Texts({"sent.h"}));
}

TEST(CompilerOptions, WhatProgramsGiveIsAccepted) {
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--gpu-architecture=compute_90", "-std=c++17", "-default-device", "-DX=(a - b)"},
           {"-arch=sm_90", "-rdc", "true", "-w", "--use_fast_math", "-D", "NAME", "-UNAME"},
           {"-D__x=unsigned int", "-G", "-lineinfo", "--diag-suppress=177,20", "-no-cache"},
           {"-Xptxas=-v", "-Xptxas", "-O3", "--ptxas-options=--maxrregcount=32", "-dlto"},
           {"--pre-include=sent.h", "-include", "sent.h", "--ftz=true", "-maxrregcount=64"},
       })
    EXPECT_EQ(Refused(Compiler::kNvrtc, options), "");
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"-arch=sm_90a", "-lto", "-O3", "-verbose", "-time", "-Xptxas=-warn-spills"},
           {"-arch=sm_90", "-ptx", "-kernels-used=_Z1kv", "-variables-used=a,b", "-fma=1"},
           {"-arch=sm_120", "-split-compile=2", "-Xptxas=--opt-level=2", "-g", "-no-cache"},
       })
    EXPECT_EQ(Refused(Compiler::kNvJitLink, options), "");
}

TEST(CompilerOptions, WhatNamesAFileIsRefusedByName) {
  for (const std::string option : {"-Xptxas=--options-file=/etc/passwd",
                                   "--ptxas-options=-optf=/etc/passwd",
                                   "-Xptxas=/etc/passwd",
                                   "-Xptxas=-o=/tmp/x",
                                   "-Xptxas=--input-as-string=x",
                                   "-Xptxas=-v --options-file=/etc/passwd",
                                   "-Xptxas=-v,--options-file",
                                   "-I/etc",
                                   "-I=/etc",
                                   "--include-path=/etc",
                                   "--time=/tmp/x",
                                   "-time=/tmp/x",
                                   "--pch",
                                   "--create-pch=/tmp/x",
                                   "--use-pch=/etc/passwd",
                                   "--pch-dir=/tmp",
                                   "--fdevice-time-trace=/tmp/x",
                                   "@/etc/passwd",
                                   "/etc/passwd",
                                   "--pre-include=/etc/passwd",
                                   "-include=other.h",
                                   "-std=c++17 -I/etc",
                                   "--no-such-option",
                                   "-",
                                   "--",
                                   "",
                                   "-arch=sm_90/../../etc",
                                   "-Xptxas=-O3x",
                                   "-Xnvvm=-x"}) {
    const std::string why = Refused(Compiler::kNvrtc, {"-w", option});
    EXPECT_NE(why.find("option '" + option + "' is refused"), std::string::npos) << option;
  }
  for (const std::string option :
       {"-Xptxas=--options-file=/etc/passwd", "-Xptxas=-optf=/etc/passwd", "-Xptxas=/etc/passwd",
        "-Xnvvm=-dump-nvvmir=/tmp/x", "-dump-nvvmir=/tmp/x", "--options-file=/etc/passwd",
        "-kernels-used=/etc/passwd", "-kernels-used=x -Xptxas=--options-file", "-O3/etc", "@x",
        "-Xptxas=-v\n--options-file=/etc/passwd", "-Xptxas=\"--options-file=/etc/passwd\""}) {
    const std::string why = Refused(Compiler::kNvJitLink, {"-arch=sm_90", option});
    EXPECT_NE(why.find("option '" + option + "' is refused"), std::string::npos) << option;
  }
}

TEST(CompilerOptions, AnOptionIsNotTheValueOfTheOneBefore) {
  EXPECT_NE(Refused(Compiler::kNvrtc, {"-D", "-I/etc"}), "");
  EXPECT_NE(Refused(Compiler::kNvrtc, {"-maxrregcount", "--time=/tmp/x"}), "");
  EXPECT_NE(Refused(Compiler::kNvrtc, {"-D", "@/etc/passwd"}), "");
  EXPECT_NE(Refused(Compiler::kNvrtc, {"-Xptxas", "--options-file", "-Xptxas", "/etc/passwd"}), "");
  EXPECT_NE(Refused(Compiler::kNvrtc, {"-w", "x"}), "");
  EXPECT_NE(Refused(Compiler::kNvrtc, {std::string("-DX\0-I/etc", 10)}), "");
  EXPECT_EQ(Refused(Compiler::kNvrtc, {"-rdc"}), "");  // the compiler says what it lacks
}

}  // namespace
}  // namespace farcall::server
