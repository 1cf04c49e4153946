// SPDX-License-Identifier: Apache-2.0
// Which instructions the CPU device executes and which tests compare them, proven: each mnemonic's
// lowering is spoilt (mutate.cc), and a test has to fail. One line a mnemonic:
//   mnemonic  yes|no, refused: WHY  oracle: a case of the corpus|-  interpreter: yes|-
//   ptx_forms [SHARD SHARDS [SUBSTRING|FILE]] > forms.tsv
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "cpu-device/ptx/module.h"
#include "tests/jit/differential/generator.h"
#include "tests/jit/differential/runner.h"
#include "tests/jit/run_case.h"
#include "tests/ptx/corpus/corpus.h"
#include "tests/ptx/corpus/refused.h"
#include "tests/ptx/corpus/texture_cases.h"

namespace farcall::cpu_device {
namespace {

using differential::AllForms;
using differential::Form;
using ptx_corpus::Case;

constexpr size_t kTriedCases = 25;  // of those that use a mnemonic
constexpr uint64_t kTriedSeeds = 12;

// What the JIT is tried with: textures too, which the interpreter does not do.
const std::vector<Case>& Cases() {
  static const std::vector<Case>* cases = [] {
    auto* all = new std::vector<Case>(ptx_corpus::AllCases());
    const std::vector<Case>& images = ptx_corpus::TextureCases();
    all->insert(all->end(), images.begin(), images.end());
    return all;
  }();
  return *cases;
}

struct Row {
  std::string refused;  // why it does not run
  std::string oracle;   // a case that notices
  bool interpreter = false;
};

// What is right ends, however busy the machine is; what is spoilt may never.
constexpr uint64_t kSecond = 1'000'000'000, kPatience = 60 * kSecond, kPatienceSpoilt = 5 * kSecond;

void CutAfter(uint64_t ns) {
  ExecutorOptions options = TestOptions();
  options.verify_ir = false;
  options.pool_threads = 1;
  options.watchdog_ns = ns;
  ConfigureExecutor(options);
}

struct Mutation {
  explicit Mutation(const std::string& mnemonic) {
    CutAfter(kPatienceSpoilt);
    setenv("FARCALL_PTXJIT_MUTATE", mnemonic.c_str(), 1);
  }
  ~Mutation() {
    unsetenv("FARCALL_PTXJIT_MUTATE");
    CutAfter(kPatience);
  }
};

// Leaves nothing of an earlier run in shared memory that could hide a missing barrier or store.
void PoisonSharedMemory() {
  static std::unique_ptr<Program> program;
  constexpr char kText[] =
      ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p;\n"
      ".reg .b32 %a, %e;\n.extern .shared .align 16 .b8 all[];\nmov.u32 %a, all;\n"
      "add.u32 %e, %a, 16384;\nAGAIN:\nst.shared.u32 [%a], 0xa5a5a5a5;\nadd.u32 %a, %a, 4;\n"
      "setp.lt.u32 %p, %a, %e;\n@%p bra AGAIN;\nret;\n}\n";
  if (!program) Program::Load(kText, TestMemory::Get(), &program);
  LaunchConfig config;
  config.grid = config.cluster = {8};
  config.dynamic_shared_bytes = 16384;
  program->FindKernel("k")->Run(config, nullptr);
}

// Of each mnemonic the cases that use it, its own first.
std::map<std::string, std::vector<size_t>> Users() {
  std::map<std::string, std::vector<size_t>> own, others;
  for (size_t i = 0; i < Cases().size(); ++i) {
    ptx::Module module;
    if (!ptx::Parse(Cases()[i].ptx, &module).ok() || !module.EnsureAll().ok()) continue;
    std::set<std::string> used;
    for (const auto& function : module.functions)
      for (const ptx::Instruction& instruction : function->body)
        used.insert(std::string(instruction.mnemonic));
    for (const std::string& mnemonic : used) {
      const bool is_own = Cases()[i].name.rfind(mnemonic, 0) == 0;
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
    if (plain.find(i) == plain.end()) plain[i] = RunCase(Cases()[i]);
    if (!plain[i].empty()) {
      row->refused = plain[i];
      continue;
    }
    row->refused.clear();
    PoisonSharedMemory();
    Mutation mutation(mnemonic);
    if (RunCase(Cases()[i]).empty()) continue;
    row->oracle = Cases()[i].name;
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
    if (row->oracle.empty()) row->refused = right.refused;
    if (!right.refused.empty() || !(right.memory == read.memory)) continue;
    PoisonSharedMemory();
    Mutation mutation(form.mnemonic);
    const differential::Outcome wrong = differential::Compiled(c);
    row->interpreter = !wrong.refused.empty() || !(wrong.memory == read.memory);
  }
}

// Every `of`-th mnemonic from `shard` on, of those listed if `only` is a file, or containing it.
int Main(size_t shard, size_t of, const std::string& only) {
  std::set<std::string> listed;
  std::ifstream list(only);
  for (std::string line; std::getline(list, line);) listed.insert(line);
  auto wanted = [&](const std::string& mnemonic) {
    return listed.empty() ? mnemonic.find(only) != std::string::npos : listed.count(mnemonic) != 0;
  };
  setenv("FARCALL_PTXJIT", FARCALL_PTXJIT_PATH, 1);
  CutAfter(kPatience);
  const std::map<std::string, std::vector<size_t>> users = Users();
  std::map<std::string, const Form*> forms;
  std::map<std::string, const ptx_corpus::Refusal*> refusals;
  std::set<std::string> mnemonics;
  for (const auto& [mnemonic, cases] : users) mnemonics.insert(mnemonic);
  for (const Form& form : AllForms()) forms[form.mnemonic] = &form, mnemonics.insert(form.mnemonic);
  for (const ptx_corpus::Refusal& refusal : ptx_corpus::AllRefusals()) {
    refusals[refusal.mnemonic] = &refusal;
    mnemonics.insert(refusal.mnemonic);
  }
  size_t next = 0;
  for (const std::string& mnemonic : mnemonics) {
    if (!wanted(mnemonic) || next++ % of != shard) continue;
    Row row;
    if (auto it = users.find(mnemonic); it != users.end()) AskOracle(mnemonic, it->second, &row);
    if (auto it = forms.find(mnemonic); it != forms.end()) AskInterpreter(*it->second, &row);
    if (auto it = refusals.find(mnemonic); it != refusals.end()) {
      const std::string said = RunCase(it->second->MakeCase());
      if (!said.empty()) row.refused = said;
    }
    printf("%s\t%s\t%s\t%s\n", mnemonic.c_str(), row.refused.empty() ? "yes" : row.refused.c_str(),
           row.oracle.empty() ? "-" : row.oracle.c_str(), row.interpreter ? "yes" : "-");
    fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace farcall::cpu_device

int main(int argc, char** argv) {
  const size_t shard = argc > 2 ? strtoul(argv[1], nullptr, 10) : 0;
  const size_t of = argc > 2 ? strtoul(argv[2], nullptr, 10) : 1;
  if (of == 0 || argc == 2 || argc > 4) {
    fprintf(stderr, "usage: ptx_forms [SHARD SHARDS [SUBSTRING|FILE]]\n");
    return 2;
  }
  return farcall::cpu_device::Main(shard, of, argc > 3 ? argv[3] : "");
}
