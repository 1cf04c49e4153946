// SPDX-License-Identifier: Apache-2.0
// What is known of a register's value besides its form: whether the thread's place is in it, which
// roots it has. Facts go from operands to results until nothing is new.
#include "cpu-device/jit/address/address_form.h"
#include "cpu-device/jit/address/address_rules.h"

namespace farcall::cpu_device::jit {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::RegisterId;
using ptx::SpecialRegister;
using Symbol = AddressForm::Symbol;

AddressForms::Facts AddressForms::Read(const Operand& operand) const {
  Facts facts;
  if (operand.Is(Operand::Kind::kSpecialRegister)) {
    facts.by_thread = IsThread(operand.special);
    facts.by_block = operand.special == SpecialRegister::kCtaidX;
  }
  if (operand.variable) {
    auto bit = bits_.find(OfVariable(operand));
    if (bit != bits_.end()) facts.roots |= bit->second;
  }
  ForRegisters(operand, [&](RegisterId reg) {
    facts.by_thread |= facts_[reg].by_thread;
    facts.by_block |= facts_[reg].by_block;
    facts.scaled |= facts_[reg].scaled;
    facts.roots |= facts_[reg].roots;
  });
  return facts;
}

// What an instruction's results are, of what its operands are.
AddressForms::Facts AddressForms::Results(const Instruction& instruction) const {
  Facts results;
  for (size_t i = 1; i < instruction.operands.size(); ++i) {
    const Facts facts = Read(instruction.operands[i]);
    results.by_thread |= facts.by_thread;
    results.by_block |= facts.by_block;
    results.scaled |= facts.scaled;
    if (i >= FirstSummand(instruction)) results.roots |= facts.roots;
  }
  if (!Fetches(instruction)) return results;
  results.scaled = false;
  results.roots = 0;
  if (instruction.Is(Opcode::kLd) && IsOfParams(instruction)) {
    auto slot = slots_.find(instruction.operands.back().variable);
    if (slot != slots_.end()) results.by_thread |= slot->second.by_thread;
  }
  if (!instruction.Is(Opcode::kLd) || ptx::BitsOf(instruction.type()) < 64) return results;
  auto bit = bits_.find(Fetched(instruction));
  if (bit != bits_.end()) results.roots = bit->second;
  return results;
}

// What a call is given goes into what it gives back. True: something is new.
bool AddressForms::SpreadToSlots(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  auto give = [&](const Operand& to, const Facts& facts) {
    auto slot = slots_.find(to.variable);
    if (slot == slots_.end()) return false;
    const Facts before = slot->second;
    slot->second.by_thread |= facts.by_thread;
    slot->second.roots |= facts.roots;
    return slot->second.by_thread != before.by_thread || slot->second.roots != before.roots;
  };
  if (instruction.Is(Opcode::kSt) && IsOfParams(instruction)) return give(ops[0], Read(ops[1]));
  if (!instruction.Is(Opcode::kCall)) return false;
  Facts given = Given(instruction);
  given.by_thread |= ops.size() > 1 && AsksForThread(ops[1].function);
  given.roots = 0;
  bool changed = false;
  for (const Operand& slot : ops[0].elements) changed |= give(slot, given);
  return changed;
}

AddressForms::Facts AddressForms::Given(const Instruction& call) const {
  Facts given;
  for (size_t i = 2; i < call.operands.size(); ++i) {
    for (const Operand& each : call.operands[i].elements) {
      auto slot = slots_.find(each.variable);
      const Facts facts = slot == slots_.end() ? Read(each) : slot->second;
      given.by_thread |= facts.by_thread;
      given.roots |= facts.roots;
    }
  }
  return given;
}

// From operands to results, until nothing is new.
void AddressForms::Spread() {
  auto number = [&](Symbol symbol) {
    const auto next = std::min<size_t>(bits_.size(), 63);
    bits_.emplace(symbol, uint64_t{1} << next);
  };
  for (const Instruction& instruction : function_.body) {
    if (instruction.Is(Opcode::kLd) && ptx::BitsOf(instruction.type()) == 64)
      number(Fetched(instruction));
    for (const Operand& operand : instruction.operands) {
      if (!operand.variable || IsOfParams(instruction)) continue;
      number(OfVariable(operand));
      if (operand.variable->space == ptx::Space::kShared) shared_ |= bits_[OfVariable(operand)];
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instruction& instruction : function_.body) {
      changed |= SpreadToSlots(instruction);
      const Facts results = Results(instruction);
      ForResults(instruction, [&](RegisterId reg) {
        Facts& own = facts_[reg];
        const Facts before = own;
        own.by_thread |= results.by_thread;
        own.by_block |= results.by_block;
        own.scaled |= results.scaled;
        own.roots |= results.roots;
        changed |= own.by_thread != before.by_thread || own.by_block != before.by_block ||
                   own.scaled != before.scaled || own.roots != before.roots;
      });
    }
  }
}

bool AddressForms::ByThread(const Operand& operand) const {
  return Read(operand).by_thread;
}

bool AddressForms::ByScaledLoop(const Operand& operand) const {
  return Read(operand).scaled;
}

uint64_t AddressForms::Roots(const Operand& operand) const {
  return Read(operand).roots;
}

}  // namespace farcall::cpu_device::jit
