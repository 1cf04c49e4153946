// SPDX-License-Identifier: Apache-2.0
// The instructions a generated kernel may hold, and what their operands may be.
#pragma once

#include <string>
#include <vector>

namespace farcall::cpu_device::differential {

// One instruction that works on a thread's registers alone.
struct Form {
  std::string mnemonic;               // "add.sat.s32"
  std::vector<std::string> operands;  // see forms.cc
  char nan = 0;                       // the float format of the result, whose NaNs are made one
};

const std::vector<Form>& AllForms();

// "{a,b}x{c,d}" -> axc axd bxc bxd.
std::vector<std::string> Expand(const std::string& pattern);

}  // namespace farcall::cpu_device::differential
