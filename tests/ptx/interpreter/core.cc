// SPDX-License-Identifier: Apache-2.0
// One step of one thread.
#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {

bool Core::GuardHolds() const {
  if (in_.guard == ptx::kNoRegister) return true;
  return (thread_.frame().regs[in_.guard].lo != 0) != in_.guard_negated;
}

void Core::Step() {
  if (!GuardHolds()) {
    ++thread_.frame().pc;
    return;
  }
  bool done = Asynchronous() || Memory() || Logic() || Video() || Integer() || Comparison() ||
              Floating() || Convert() || Atomic() || Warp() || Control();
  if (!done) Unsupported();
  if (!jumped_ && thread_.state == ThreadState::kRunning) ++thread_.frame().pc;
}

}  // namespace farcall::cpu_device::ptx_interpreter
