// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/exchange_paths.h"

namespace farcall::cpu_device::jit {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;

namespace {

constexpr size_t kMaxWalks = 256;  // through the code, for one kernel; one more counts as reached

// Instructions that a thread can come to from `first` on before its warp gathers, `first` too.
std::vector<bool> ReachedFrom(const ptx::Function& entry, uint32_t first) {
  std::vector<bool> seen(entry.body.size(), false);
  std::vector<uint32_t> open = {first};
  auto go = [&](uint64_t next) {
    if (next < seen.size() && !seen[next]) open.push_back(static_cast<uint32_t>(next));
  };
  while (!open.empty()) {
    const uint32_t i = open.back();
    open.pop_back();
    if (i >= seen.size() || seen[i]) continue;
    seen[i] = true;
    const Instruction& instruction = entry.body[i];
    if (MeetsOthers(instruction)) continue;
    const bool always = instruction.guard == ptx::kNoRegister;
    if (instruction.Is(Opcode::kBra)) go(static_cast<uint64_t>(instruction.operands[0].value));
    if (instruction.Is(Opcode::kBrx) && instruction.operands.size() > 1 &&
        instruction.operands[1].Is(Operand::Kind::kTable)) {
      const auto table = static_cast<size_t>(instruction.operands[1].value);
      for (uint32_t target : entry.branch_targets[table].targets) go(target);
    }
    const bool leaves = instruction.Is(Opcode::kBra) || instruction.Is(Opcode::kBrx) ||
                        instruction.Is(Opcode::kExit) || instruction.Is(Opcode::kRet);
    if (!leaves || !always) go(uint64_t{i} + 1);
  }
  return seen;
}

}  // namespace

bool MeetsOthers(const ptx::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kBar:
    case Opcode::kBarrier:
    case Opcode::kShfl:
    case Opcode::kVote:
    case Opcode::kMatch:
    case Opcode::kRedux:
    case Opcode::kElect:
    case Opcode::kMma:
    case Opcode::kWmma:
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
    case Opcode::kMovmatrix:
      return true;
    default:
      return false;
  }
}

bool IsVolatileOfCallee(const Instruction& instruction) {
  const ptx::Space space = instruction.mods.space;
  return instruction.Is(Opcode::kSt) && instruction.mods.semantics == ptx::Semantics::kVolatile &&
         (space == ptx::Space::kShared || space == ptx::Space::kNone);
}

bool ExchangePaths::Lead(uint32_t from, uint32_t to) {
  return LeadFrom(from + 1, to);
}

bool ExchangePaths::LeadFrom(uint32_t first, uint32_t to) {
  if (first >= reached_.size()) return false;
  std::vector<bool>& reached = reached_[first];
  if (reached.empty()) {
    if (walks_ == kMaxWalks) return true;
    ++walks_;
    reached = ReachedFrom(entry_, first);
  }
  return reached[to];
}

}  // namespace farcall::cpu_device::jit
