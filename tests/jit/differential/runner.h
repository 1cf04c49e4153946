// SPDX-License-Identifier: Apache-2.0
// One random kernel in the interpreter and in the JIT.
#pragma once

#include <string>
#include <vector>

#include "tests/jit/differential/generator.h"

namespace farcall::cpu_device::differential {

// What a kernel reads and leaves.
struct Memory {
  std::vector<uint64_t> out, counters, blocks;
  bool operator==(const Memory&) const = default;
};

struct Outcome {
  std::string refused;  // why it did not run
  Memory memory;
};

struct Compared {
  uint64_t seed = 0;
  std::vector<const Form*> forms;
  GeneratedKernel kernel;
  std::string text;
  std::vector<uint64_t> in;
  Memory before;
};

Compared MakeCompared(uint64_t seed, const std::vector<const Form*>& forms,
                      size_t max_statements = SIZE_MAX);
// `instructions` grows by those of the kernel's text.
Outcome Interpreted(const Compared& c, uint64_t* instructions);
Outcome Compiled(const Compared& c);

}  // namespace farcall::cpu_device::differential
