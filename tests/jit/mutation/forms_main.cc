// SPDX-License-Identifier: Apache-2.0
// Which instructions the CPU device executes and which tests compare them, proven: each mnemonic's
// lowering is spoilt (mutate.cc), and a test has to fail. One line a mnemonic:
//   mnemonic  yes|no, refused: WHY  oracle: a case of the corpus|-  interpreter: yes|-
//   ptx_forms [--only SUBSTRING] > forms.tsv
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "cpu-device/ptx/module.h"
#include "tests/jit/differential/generator.h"
#include "tests/jit/differential/runner.h"
#include "tests/jit/run_case.h"
#include "tests/ptx/corpus/corpus.h"
#include "tests/ptx/corpus/refused.h"

namespace farcall::cpu_device {
namespace {

using differential::AllForms;
using differential::Form;
using ptx_corpus::AllCases;
using ptx_corpus::Case;

constexpr size_t kTriedCases = 25;  // of those that use a mnemonic
constexpr uint64_t kTriedSeeds = 12;

struct Row {
  std::string refused;  // why it does not run
  std::string oracle;   // a case that notices
  bool interpreter = false;
};

struct Mutation {
  explicit Mutation(const std::string& mnemonic) {
    setenv("FARCALL_PTXJIT_MUTATE", mnemonic.c_str(), 1);
  }
  ~Mutation() { unsetenv("FARCALL_PTXJIT_MUTATE"); }
};

// Of each mnemonic the cases that use it, its own first.
std::map<std::string, std::vector<size_t>> Users() {
  std::map<std::string, std::vector<size_t>> own, others;
  for (size_t i = 0; i < AllCases().size(); ++i) {
    ptx::Module module;
    if (!ptx::Parse(AllCases()[i].ptx, &module).ok() || !module.EnsureAll().ok()) continue;
    std::set<std::string> used;
    for (const auto& function : module.functions) {
      for (const ptx::Instruction& instruction : function->body) {
        used.insert(std::string(instruction.mnemonic));
      }
    }
    for (const std::string& mnemonic : used) {
      const bool is_own = AllCases()[i].name.rfind(mnemonic, 0) == 0;
      (is_own ? own : others)[mnemonic].push_back(i);
      own[mnemonic];
    }
  }
  for (auto& [mnemonic, cases] : own) {
    const std::vector<size_t>& more = others[mnemonic];
    cases.insert(cases.end(), more.begin(), more.end());
    if (cases.size() > kTriedCases) cases.resize(kTriedCases);
  }
  return own;
}

void AskOracle(const std::string& mnemonic, const std::vector<size_t>& cases, Row* row) {
  static std::map<size_t, std::string> plain;  // what a case says when nothing is spoilt
  for (size_t i : cases) {
    if (plain.find(i) == plain.end()) plain[i] = RunCase(AllCases()[i]);
    if (!plain[i].empty()) {
      row->refused = plain[i];
      continue;
    }
    row->refused.clear();
    Mutation mutation(mnemonic);
    if (RunCase(AllCases()[i]).empty()) continue;
    row->oracle = AllCases()[i].name;
    return;
  }
}

void AskInterpreter(const Form& form, Row* row) {
  uint64_t instructions = 0;
  for (uint64_t seed = 1; seed <= kTriedSeeds && !row->interpreter; ++seed) {
    differential::Compared c = differential::MakeCompared(seed, {&form}, 14);
    bool used = false;
    for (const std::string& opcode : c.kernel.opcodes) used |= opcode == form.mnemonic;
    if (!used) continue;
    const differential::Outcome read = differential::Interpreted(c, &instructions);
    if (!read.refused.empty()) continue;
    const differential::Outcome right = differential::Compiled(c);
    if (!right.refused.empty() || !(right.memory == read.memory)) continue;
    Mutation mutation(form.mnemonic);
    const differential::Outcome wrong = differential::Compiled(c);
    row->interpreter = !wrong.refused.empty() || !(wrong.memory == read.memory);
  }
}

int Main(const std::string& only) {
  setenv("FARCALL_PTXJIT", FARCALL_PTXJIT_PATH, 1);
  ExecutorOptions options = TestOptions();
  options.verify_ir = false;
  options.watchdog_ns = 2'000'000'000;
  ConfigureExecutor(options);
  std::map<std::string, Row> rows;
  auto wanted = [&](const std::string& mnemonic) {
    return only.empty() || mnemonic.find(only) != std::string::npos;
  };
  for (const auto& [mnemonic, cases] : Users()) {
    if (wanted(mnemonic)) AskOracle(mnemonic, cases, &rows[mnemonic]);
  }
  for (const Form& form : AllForms()) {
    if (wanted(form.mnemonic)) AskInterpreter(form, &rows[form.mnemonic]);
  }
  for (const ptx_corpus::Refusal& refusal : ptx_corpus::AllRefusals()) {
    if (!wanted(refusal.mnemonic)) continue;
    const std::string said = RunCase(refusal.MakeCase());
    if (!said.empty()) rows[refusal.mnemonic].refused = said;
  }
  for (const auto& [mnemonic, row] : rows) {
    printf("%s\t%s\t%s\t%s\n", mnemonic.c_str(), row.refused.empty() ? "yes" : row.refused.c_str(),
           row.oracle.empty() ? "-" : row.oracle.c_str(), row.interpreter ? "yes" : "-");
  }
  return 0;
}

}  // namespace
}  // namespace farcall::cpu_device

int main(int argc, char** argv) {
  return farcall::cpu_device::Main(argc == 3 && std::string(argv[1]) == "--only" ? argv[2] : "");
}
