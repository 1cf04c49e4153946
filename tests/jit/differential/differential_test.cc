// SPDX-License-Identifier: Apache-2.0
// Random kernels in the interpreter and in the JIT; every byte they leave must be the same.
//   FARCALL_PTX_DIFFERENTIAL_KERNELS=N   how many kernels (default: enough to use each form twice)
//   FARCALL_PTX_DIFFERENTIAL_SEED=N      the first seed (default 1)
//   FARCALL_PTX_DIFFERENTIAL_TABLE=1     prints how often each opcode was compared
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/jit/differential/generator.h"
#include "tests/jit/program_fixture.h"
#include "tests/ptx/interpreter/interpreter.h"

namespace farcall::cpu_device {
namespace {

using differential::Deck;
using differential::Form;
using differential::GeneratedKernel;
using differential::Generator;

constexpr size_t kFormsOfAKernel = 40;
constexpr const char* kHeader = ".version 8.6\n.target sm_100\n.address_size 64\n";

uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// What a kernel reads and leaves.
struct Memory {
  std::vector<uint64_t> out, counters, blocks;
  bool operator==(const Memory&) const = default;
};

std::vector<uint64_t> RandomWords(std::mt19937_64& random, size_t bytes) {
  std::vector<uint64_t> words(bytes / 8);
  for (uint64_t& word : words) word = differential::InterestingBits(random);
  return words;
}

class Differential : public ProgramTest {
 protected:
  struct Run {
    std::string refused;  // why it did not run
    Memory memory;
  };
  struct Case {
    uint64_t seed = 0;
    std::vector<const Form*> forms;
    GeneratedKernel kernel;
    std::string text;
    std::vector<uint64_t> in;
    Memory before;
  };

  static Case Make(uint64_t seed, const std::vector<const Form*>& forms,
                   size_t max_statements = SIZE_MAX) {
    Case c;
    c.seed = seed;
    c.forms = forms;
    c.kernel = Generator(seed, forms).Make(max_statements);
    c.text = kHeader + c.kernel.ptx;
    std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15);
    size_t records = size_t{c.kernel.grid} * c.kernel.block * differential::kRecordBytes;
    c.in = RandomWords(random, records);
    c.before.out = RandomWords(random, records);
    c.before.counters = RandomWords(random, differential::kCounters * 8);
    c.before.blocks.assign(size_t{c.kernel.grid} * differential::kCounters, 0);
    return c;
  }

  static Run Interpreted(const Case& c, uint64_t* instructions) {
    std::unique_ptr<ptx_interpreter::Interpreter> program;
    ptx_interpreter::RunResult result = ptx_interpreter::Interpreter::Load(c.text, &program);
    if (!result.ok()) return {"interpreter: " + result.message, {}};
    for (const auto& function : program->module().functions) {
      *instructions += function->body.size();
    }
    Run run{"", c.before};
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

  static DeviceArray<uint64_t>& Buffer(int which, const std::vector<uint64_t>& words) {
    static std::map<int, DeviceArray<uint64_t>> buffers;
    auto [buffer, is_new] = buffers.try_emplace(which, size_t{64} << 10);
    memcpy(buffer->second.data(), words.data(), words.size() * 8);
    return buffer->second;
  }

  static Run Compiled(const Case& c) {
    std::unique_ptr<Program> program;
    ExecResult result = Program::Load(c.text, TestMemory::Get(), &program);
    if (!result.ok()) return {"JIT: " + result.message, {}};
    auto& out = Buffer(0, c.before.out);
    auto& in = Buffer(1, c.in);
    auto& counters = Buffer(2, c.before.counters);
    auto& blocks = Buffer(3, c.before.blocks);
    result =
        ProgramTest::Run(program->FindKernel("k"), {c.kernel.grid, 1, 1}, {c.kernel.block, 1, 1},
                         out.address(), in.address(), counters.address(), blocks.address());
    if (!result.ok()) return {"JIT: " + result.message, {}};
    Run run{"", c.before};
    memcpy(run.memory.out.data(), out.data(), run.memory.out.size() * 8);
    memcpy(run.memory.counters.data(), counters.data(), run.memory.counters.size() * 8);
    memcpy(run.memory.blocks.data(), blocks.data(), run.memory.blocks.size() * 8);
    return run;
  }

  static std::string Difference(const Case& c) {
    uint64_t instructions = 0;
    Run one = Interpreted(c, &instructions), other = Compiled(c);
    if (!one.refused.empty() || !other.refused.empty()) {
      return one.refused + (one.refused.empty() ? "" : "; ") + other.refused;
    }
    return one.memory == other.memory ? "" : Where(one.memory, other.memory);
  }

  static std::string Where(const Memory& interpreted, const Memory& compiled);
  static std::string Explain(const Case& failed);
};

std::string Describe(const char* what, uint64_t interpreted, uint64_t compiled) {
  char text[160];
  snprintf(text, sizeof(text), "%s: interpreter %016llx, JIT %016llx\n", what,
           static_cast<unsigned long long>(interpreted), static_cast<unsigned long long>(compiled));
  return text;
}

std::string Differential::Where(const Memory& interpreted, const Memory& compiled) {
  std::string text;
  int shown = 0;
  for (size_t i = 0; i < interpreted.out.size() && shown < 4; ++i) {
    if (interpreted.out[i] == compiled.out[i]) continue;
    size_t at = i * 8 % differential::kRecordBytes;
    std::string what = "thread " + std::to_string(i * 8 / differential::kRecordBytes) + ", " +
                       (at < differential::kWordsAt ? "%x" + std::to_string(at / 8)
                        : at < differential::kHalvesAt
                            ? "%w" + std::to_string((at - differential::kWordsAt) / 4) + " and next"
                        : at < differential::kPredicatesAt
                            ? "%h" + std::to_string((at - differential::kHalvesAt) / 2) + " ff."
                        : at < differential::kPrivateAt
                            ? "predicates"
                            : "memory +" + std::to_string(at - differential::kPrivateAt));
    text += Describe(what.c_str(), interpreted.out[i], compiled.out[i]);
    ++shown;
  }
  for (size_t i = 0; i < interpreted.counters.size(); ++i) {
    if (interpreted.counters[i] == compiled.counters[i]) continue;
    text += Describe(("counter " + std::to_string(i)).c_str(), interpreted.counters[i],
                     compiled.counters[i]);
  }
  for (size_t i = 0; i < interpreted.blocks.size(); ++i) {
    if (interpreted.blocks[i] == compiled.blocks[i]) continue;
    text += Describe(("block counter " + std::to_string(i)).c_str(), interpreted.blocks[i],
                     compiled.blocks[i]);
  }
  return text;
}

// The shortest prefix of the kernel that still differs: its last statement is the one to look at.
std::string Differential::Explain(const Case& failed) {
  size_t agrees = 0, differs = failed.kernel.statements;
  while (agrees < differs) {
    size_t middle = (agrees + differs) / 2;
    if (Difference(Make(failed.seed, failed.forms, middle)).empty()) {
      agrees = middle + 1;
    } else {
      differs = middle;
    }
  }
  Case shortest = Make(failed.seed, failed.forms, differs);
  std::string text = "seed " + std::to_string(failed.seed) + ", statement " +
                     std::to_string(differs) + " of " + std::to_string(failed.kernel.statements) +
                     "\n" + Difference(shortest);
  size_t end = shortest.text.find("  st.global.b64 [%record+0]");
  size_t begin = end > 700 ? end - 700 : 0;
  return text + shortest.text.substr(begin, end - begin);
}

TEST_F(Differential, InterpreterAndJitAgreeOnRandomKernels) {
  const uint64_t first_seed = Setting("FARCALL_PTX_DIFFERENTIAL_SEED", 1);
  const size_t twice = 2 * differential::AllForms().size() / kFormsOfAKernel + 1;
  const uint64_t kernels = Setting("FARCALL_PTX_DIFFERENTIAL_KERNELS", twice);
  Deck deck(first_seed);
  std::map<std::string, size_t> used;
  uint64_t instructions = 0, compared = 0, failures = 0;
  for (uint64_t i = 0; i < kernels && failures < 5; ++i) {
    std::vector<const Form*> forms;
    while (forms.size() < kFormsOfAKernel) forms.push_back(&deck.Deal());
    Case c = Make(first_seed + i, forms);
    Run interpreted = Interpreted(c, &instructions), compiled = Compiled(c);
    if (!interpreted.refused.empty() || !compiled.refused.empty() ||
        !(interpreted.memory == compiled.memory)) {
      ++failures;
      ADD_FAILURE() << Explain(c);
      continue;
    }
    ++compared;
    for (const std::string& opcode : c.kernel.opcodes) ++used[opcode];
  }
  for (const Form& form : differential::AllForms()) {
    EXPECT_TRUE(used.contains(form.mnemonic) || kernels < twice || failures > 0) << form.mnemonic;
  }
  printf("%llu kernels, %llu instructions, %zu different ones compared\n",
         static_cast<unsigned long long>(compared), static_cast<unsigned long long>(instructions),
         used.size());
  if (Setting("FARCALL_PTX_DIFFERENTIAL_TABLE", 0) != 0) {
    for (const auto& [opcode, times] : used) printf("%6zu %s\n", times, opcode.c_str());
  }
}

}  // namespace
}  // namespace farcall::cpu_device
