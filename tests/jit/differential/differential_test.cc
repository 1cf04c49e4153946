// SPDX-License-Identifier: Apache-2.0
// Random kernels in the interpreter and in the JIT; every byte they leave must be the same.
//   FARCALL_PTX_DIFFERENTIAL_KERNELS=N   how many kernels (default: enough to use each form twice)
//   FARCALL_PTX_DIFFERENTIAL_SEED=N      the first seed (default 1)
//   FARCALL_PTX_DIFFERENTIAL_TABLE=1     prints how often each opcode was compared
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/jit/differential/runner.h"
#include "tests/jit/program_fixture.h"

namespace farcall::cpu_device {
namespace {

using differential::Deck;
using differential::Form;
using differential::Memory;
using Case = differential::Compared;
using differential::Outcome;

constexpr size_t kFormsOfAKernel = 40;

uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

class Differential : public ProgramTest {
 protected:
  static std::string Difference(const Case& c) {
    uint64_t instructions = 0;
    Outcome one = Interpreted(c, &instructions), other = Compiled(c);
    if (!one.refused.empty() || !other.refused.empty())
      return one.refused + (one.refused.empty() ? "" : "; ") + other.refused;
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
    if (Difference(MakeCompared(failed.seed, failed.forms, middle)).empty())
      agrees = middle + 1;
    else
      differs = middle;
  }
  Case shortest = MakeCompared(failed.seed, failed.forms, differs);
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
    Case c = MakeCompared(first_seed + i, forms);
    Outcome interpreted = Interpreted(c, &instructions), compiled = Compiled(c);
    if (!interpreted.refused.empty() || !compiled.refused.empty() ||
        !(interpreted.memory == compiled.memory)) {
      ++failures;
      ADD_FAILURE() << Explain(c);
      continue;
    }
    ++compared;
    for (const std::string& opcode : c.kernel.opcodes) ++used[opcode];
  }
  for (const Form& form : differential::AllForms())
    EXPECT_TRUE(used.contains(form.mnemonic) || kernels < twice || failures > 0) << form.mnemonic;
  printf("%llu kernels, %llu instructions, %zu different ones compared\n",
         static_cast<unsigned long long>(compared), static_cast<unsigned long long>(instructions),
         used.size());
  if (Setting("FARCALL_PTX_DIFFERENTIAL_TABLE", 0) != 0)
    for (const auto& [opcode, times] : used) printf("%6zu %s\n", times, opcode.c_str());
}

}  // namespace
}  // namespace farcall::cpu_device
