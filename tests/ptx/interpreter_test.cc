// SPDX-License-Identifier: Apache-2.0
// The interpreter against the corpus.
#include "tests/ptx/interpreter/interpreter.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device {
namespace {

using ptx_corpus::Argument;
using ptx_corpus::Case;

class Corpus : public testing::TestWithParam<size_t> {};

// Buffers live 256-aligned, as device allocations do.
struct Buffer {
  explicit Buffer(const std::vector<uint8_t>& bytes) : storage(bytes.size() + 512) {
    uint64_t start = reinterpret_cast<uint64_t>(storage.data());
    data = storage.data() + (256 - start % 256);
    std::copy(bytes.begin(), bytes.end(), data);
  }
  std::vector<uint8_t> storage;
  uint8_t* data;
};

TEST_P(Corpus, GivesTheExpectedBytes) {
  const Case& c = ptx_corpus::AllCases()[GetParam()];
  std::unique_ptr<ptx_interpreter::Interpreter> program;
  ptx_interpreter::RunResult loaded = ptx_interpreter::Interpreter::Load(c.ptx, &program);
  ASSERT_TRUE(loaded.ok()) << c.name << ": " << loaded.message << "\n" << c.ptx;
  const ptx::Function* entry = program->module().FindFunction(c.kernel);
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry->params.size(), c.arguments.size());
  std::vector<uint8_t> params(entry->param_bytes);
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    const Argument& a = c.arguments[i];
    uint8_t* at = params.data() + entry->params[i]->param_offset;
    buffers.push_back(std::make_unique<Buffer>(a.bytes));
    if (a.kind == Argument::Kind::kScalar) {
      ASSERT_EQ(a.bytes.size(), entry->params[i]->size_bytes);
      std::copy(a.bytes.begin(), a.bytes.end(), at);
    } else {
      std::memcpy(at, &buffers.back()->data, sizeof(uint8_t*));
    }
  }
  ptx_interpreter::LaunchConfig config;
  config.grid = {c.grid.x, c.grid.y, c.grid.z};
  config.block = {c.block.x, c.block.y, c.block.z};
  config.cluster = {c.cluster.x, c.cluster.y, c.cluster.z};
  config.dynamic_shared_bytes = c.dynamic_shared_bytes;
  config.max_steps = 100'000'000;
  ptx_interpreter::RunResult run = program->Run(c.kernel, config, params);
  ASSERT_TRUE(run.ok()) << c.name << ": " << run.message << "\n" << c.ptx;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    if (c.arguments[i].kind != Argument::Kind::kOutput) continue;
    EXPECT_EQ(ptx_corpus::Compare(c.arguments[i], buffers[i]->data), "") << c.name << "\n" << c.ptx;
  }
  EXPECT_EQ(run.output, c.expected_output) << c.name;
}

std::string NameOf(const testing::TestParamInfo<size_t>& info) {
  std::string name;
  for (char ch : ptx_corpus::AllCases()[info.param].name)
    name += std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
  return name + "_" + std::to_string(info.param);
}

INSTANTIATE_TEST_SUITE_P(Ptx, Corpus, testing::Range<size_t>(0, ptx_corpus::AllCases().size()),
                         NameOf);

TEST(CorpusItself, HasUniqueNames) {
  std::set<std::string> names;
  for (const Case& c : ptx_corpus::AllCases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
  EXPECT_GE(names.size(), 120u);
}

}  // namespace
}  // namespace farcall::cpu_device
