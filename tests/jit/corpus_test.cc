// SPDX-License-Identifier: Apache-2.0
// Every case of tests/ptx/corpus through the JIT.
#include "tests/ptx/corpus/corpus.h"

#include "tests/jit/run_case.h"
#include "tests/ptx/corpus/refused.h"
#include "tests/ptx/corpus/texture_cases.h"

namespace farcall::cpu_device {
namespace {

class CorpusTest : public ProgramTest, public ::testing::WithParamInterface<size_t> {};

TEST_P(CorpusTest, GivesTheExpectedBytes) {
  EXPECT_EQ(RunCase(ptx_corpus::AllCases()[GetParam()]), "");
}

INSTANTIATE_TEST_SUITE_P(All, CorpusTest,
                         ::testing::Range<size_t>(0, ptx_corpus::AllCases().size()),
                         [](const auto& info) {
                           std::string name = ptx_corpus::AllCases()[info.param].name;
                           for (char& c : name)
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

class TextureCorpusTest : public ProgramTest {};

TEST_F(TextureCorpusTest, GivesTheExpectedBytes) {
  for (const ptx_corpus::Case& c : ptx_corpus::TextureCases()) EXPECT_EQ(RunCase(c), "") << c.name;
}

class RefusalTest : public ProgramTest {};

TEST_F(RefusalTest, WhatIsNotExecutedIsToldByNameAndLine) {
  for (const ptx_corpus::Refusal& refusal : ptx_corpus::AllRefusals()) {
    Program* program = Load(refusal.MakeCase().ptx);
    ASSERT_NE(program, nullptr) << refusal.mnemonic;
    ExecResult result = program->FindKernel("k")->Prepare();
    EXPECT_EQ(result.status, ExecStatus::kUnsupported) << refusal.mnemonic;
    std::string expected = "kernel k, line " + std::to_string(refusal.line) + ": " +
                           refusal.mnemonic + " is not supported by the CPU device";
    EXPECT_EQ(result.message.substr(0, expected.size()), expected);
  }
}

}  // namespace
}  // namespace farcall::cpu_device
