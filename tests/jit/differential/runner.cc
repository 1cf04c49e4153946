// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/differential/runner.h"

#include <map>

#include "tests/jit/program_fixture.h"
#include "tests/ptx/interpreter/interpreter.h"

namespace farcall::cpu_device::differential {
namespace {

constexpr const char* kHeader = ".version 8.6\n.target sm_100\n.address_size 64\n";

std::vector<uint64_t> RandomWords(std::mt19937_64& random, size_t bytes) {
  std::vector<uint64_t> words(bytes / 8);
  for (uint64_t& word : words) word = InterestingBits(random);
  return words;
}

DeviceArray<uint64_t>& Buffer(int which, const std::vector<uint64_t>& words) {
  static std::map<int, DeviceArray<uint64_t>> buffers;
  auto [buffer, is_new] = buffers.try_emplace(which, size_t{64} << 10);
  memcpy(buffer->second.data(), words.data(), words.size() * 8);
  return buffer->second;
}

}  // namespace

Compared MakeCompared(uint64_t seed, const std::vector<const Form*>& forms, size_t max_statements) {
  Compared c;
  c.seed = seed;
  c.forms = forms;
  c.kernel = Generator(seed, forms).Make(max_statements);
  c.text = kHeader + c.kernel.ptx;
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15);
  size_t records = size_t{c.kernel.grid} * c.kernel.block * kRecordBytes;
  c.in = RandomWords(random, records);
  c.before.out = RandomWords(random, records);
  c.before.counters = RandomWords(random, kCounters * 8);
  c.before.blocks.assign(size_t{c.kernel.grid} * kCounters, 0);
  return c;
}

Outcome Interpreted(const Compared& c, uint64_t* instructions) {
  std::unique_ptr<ptx_interpreter::Interpreter> program;
  ptx_interpreter::RunResult result = ptx_interpreter::Interpreter::Load(c.text, &program);
  if (!result.ok()) return {"interpreter: " + result.message, {}};
  for (const auto& function : program->module().functions) *instructions += function->body.size();
  Outcome run{"", c.before};
  std::vector<uint64_t> in = c.in;
  const void* arguments[] = {run.memory.out.data(), in.data(), run.memory.counters.data(),
                             run.memory.blocks.data()};
  std::vector<uint8_t> params(sizeof(arguments));
  memcpy(params.data(), arguments, sizeof(arguments));
  ptx_interpreter::LaunchConfig config;
  config.grid = {c.kernel.grid, 1, 1};
  config.block = {c.kernel.block, 1, 1};
  config.max_steps = 200'000'000;
  result = program->Run("k", config, params);
  if (!result.ok()) run.refused = "interpreter: " + result.message;
  return run;
}

Outcome Compiled(const Compared& c) {
  std::unique_ptr<Program> program;
  ExecResult result = Program::Load(c.text, TestMemory::Get(), &program);
  if (!result.ok()) return {"JIT: " + result.message, {}};
  auto& out = Buffer(0, c.before.out);
  auto& in = Buffer(1, c.in);
  auto& counters = Buffer(2, c.before.counters);
  auto& blocks = Buffer(3, c.before.blocks);
  Kernel* kernel = program->FindKernel("k");
  LaunchConfig config;
  config.grid = {c.kernel.grid, 1, 1};
  config.block = {c.kernel.block, 1, 1};
  Arguments arguments(kernel->info());
  arguments.Add(out.address()).Add(in.address()).Add(counters.address()).Add(blocks.address());
  result = kernel->Run(config, arguments.data());
  if (!result.ok()) return {"JIT: " + result.message, {}};
  Outcome run{"", c.before};
  memcpy(run.memory.out.data(), out.data(), run.memory.out.size() * 8);
  memcpy(run.memory.counters.data(), counters.data(), run.memory.counters.size() * 8);
  memcpy(run.memory.blocks.data(), blocks.data(), run.memory.blocks.size() * 8);
  return run;
}

}  // namespace farcall::cpu_device::differential
