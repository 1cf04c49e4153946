// SPDX-License-Identifier: Apache-2.0
// Every case of tests/ptx/corpus through the JIT.
#include "tests/ptx/corpus/corpus.h"

#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

using ptx_corpus::Argument;
using ptx_corpus::Case;

class CorpusTest : public ProgramTest, public ::testing::WithParamInterface<size_t> {};

TEST_P(CorpusTest, GivesTheExpectedBytes) {
  const Case& c = ptx_corpus::AllCases()[GetParam()];
  std::unique_ptr<Program> program;
  ExecResult result = Program::Load(c.ptx, TestMemory::Get(), &program);
  ASSERT_TRUE(result.ok()) << result.message;
  Kernel* kernel = program->FindKernel(c.kernel);
  ASSERT_NE(kernel, nullptr);
  const KernelInfo& info = kernel->info();
  ASSERT_EQ(info.params.size(), c.arguments.size());
  std::vector<uint8_t> block(info.param_bytes + 1);
  std::vector<uint64_t> buffers(c.arguments.size());
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    const Argument& argument = c.arguments[i];
    const void* value = argument.bytes.data();
    size_t bytes = argument.bytes.size();
    if (argument.kind != Argument::Kind::kScalar) {
      buffers[i] = TestMemory::Get().Allocate(std::max<size_t>(bytes, 1), 256);
      memcpy(reinterpret_cast<void*>(buffers[i]), value, bytes);
      value = &buffers[i];
      bytes = 8;
    }
    ASSERT_EQ(info.params[i].size_bytes, bytes);
    memcpy(block.data() + info.params[i].offset_bytes, value, bytes);
  }
  LaunchConfig config;
  config.grid = {c.grid.x, c.grid.y, c.grid.z};
  config.block = {c.block.x, c.block.y, c.block.z};
  config.dynamic_shared_bytes = c.dynamic_shared_bytes;
  result = kernel->Run(config, block.data());
  // The one family the JIT lacks: an honest refusal is right, a result would have to be.
  bool product = c.name.find("wmma") != std::string::npos;
  if (product && result.status == ExecStatus::kUnsupported) GTEST_SKIP() << result.message;
  ASSERT_TRUE(result.ok()) << result.message;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    if (c.arguments[i].kind != Argument::Kind::kOutput) continue;
    std::string difference =
        ptx_corpus::Compare(c.arguments[i], reinterpret_cast<const uint8_t*>(buffers[i]));
    EXPECT_EQ(difference, "") << "argument " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CorpusTest,
                         ::testing::Range<size_t>(0, ptx_corpus::AllCases().size()),
                         [](const auto& info) {
                           std::string name = ptx_corpus::AllCases()[info.param].name;
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace farcall::cpu_device
