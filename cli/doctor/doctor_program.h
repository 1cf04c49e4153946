// SPDX-License-Identifier: Apache-2.0
// `farcall doctor -- CMD`: what one program finds when it looks for CUDA.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/findings.h"

namespace farcall::cli {

struct ProgramQuestion {
  std::vector<std::string> command;
  std::string endpoint, device;  // neither: a private server, as `farcall run`
  int seconds = 60;
  bool thin = false, no_audit = false;  // as `farcall run` has them
  bool audit = false;                   // without thin: the auditor, as `farcall run` has it
};

// Runs the program on its device and says which CUDA libraries it got from where and why, what
// hides ours, which calls it asked for in vain, and what the device refused.
void ExamineProgram(const ProgramQuestion& question, Findings& findings);

}  // namespace farcall::cli
