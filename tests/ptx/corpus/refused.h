// SPDX-License-Identifier: Apache-2.0
// Instructions that the CPU device does not execute: it has to say so when the kernel is loaded, by
// name and line.
#pragma once

#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device::ptx_corpus {

struct Refusal {
  std::string mnemonic;
  std::string operands;
  uint32_t line = 0;  // of the instruction in the case's text
  Case MakeCase() const;
};

const std::vector<Refusal>& AllRefusals();

}  // namespace farcall::cpu_device::ptx_corpus
