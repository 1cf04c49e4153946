// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/address/address_form.h"

#include <algorithm>
#include <bit>

#include "cpu-device/jit/address/address_rules.h"
#include "cpu-device/jit/address/components.h"

namespace farcall::cpu_device::jit {
namespace {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::RegisterId;
using ptx::SpecialRegister;
using Symbol = AddressForm::Symbol;

constexpr size_t kMaxTerms = 12;  // a sum of more is a symbol

const char kOfRegisters = 0, kOfSpecials = 0, kOfAdvances = 0, kOfProducts = 0;
Symbol OfRegister(RegisterId reg) {
  return {&kOfRegisters, reg};
}
Symbol OfSpecial(SpecialRegister special) {
  return {&kOfSpecials, static_cast<uint64_t>(special)};
}
void Add(AddressForm* sum, const AddressForm& other, int64_t factor) {
  // Unsigned: what wraps is no worse than what is unknown.
  auto times = [factor](int64_t value) {
    return static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(factor));
  };
  for (const auto& [symbol, count] : other.terms) {
    auto& own = sum->terms[symbol];
    own = static_cast<int64_t>(static_cast<uint64_t>(own) + static_cast<uint64_t>(times(count)));
    if (own == 0) sum->terms.erase(symbol);
  }
  sum->constant = static_cast<int64_t>(static_cast<uint64_t>(sum->constant) +
                                       static_cast<uint64_t>(times(other.constant)));
}

bool RoundsItsOperand(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  switch (instruction.opcode) {
    case Opcode::kAnd:
    case Opcode::kShr:
    case Opcode::kDiv:
    case Opcode::kRem:
      return ops.size() > 2 && ops[2].Is(Operand::Kind::kInteger);
    default:
      return false;
  }
}

// How an instruction takes part in scaling a value again and again: by passing it on, by a factor,
// or not at all. A sum of two registers is what halving a signed number begins with; other sums are
// not followed, since a register that is used anew for another value would close a circle.
enum class Part { kNone, kPasses, kScales };
Part PartInScaling(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  switch (instruction.opcode) {
    case Opcode::kMov:
    case Opcode::kCvt:
      return Part::kPasses;
    case Opcode::kAdd:
      return ops.size() > 2 && ops[1].Is(Operand::Kind::kRegister) &&
                     ops[2].Is(Operand::Kind::kRegister)
                 ? Part::kPasses
                 : Part::kNone;
    case Opcode::kShl:
    case Opcode::kShr:
    case Opcode::kMul:
    case Opcode::kDiv:
      return ops.size() > 2 &&
                     (ops[1].Is(Operand::Kind::kInteger) || ops[2].Is(Operand::Kind::kInteger))
                 ? Part::kScales
                 : Part::kNone;
    default:
      return Part::kNone;
  }
}

}  // namespace

int64_t AddressForm::TakeThread() {
  auto it = terms.find(OfSpecial(SpecialRegister::kTidX));
  if (it == terms.end()) return 0;
  const int64_t factor = it->second;
  terms.erase(it);
  return factor;
}

AddressForms::AddressForms(const ptx::Function& function)
    : function_(function),
      facts_(function.registers.size()),
      definitions_(function.registers.size(), 0),
      fetched_(function.registers.size(), false),
      rounds_(function.registers.size(), false),
      given_(function.registers.size(), false),
      steps_(function.registers.size(), 0),
      known_(function.registers.size()) {
  FindSlots();
  CountDefinitions();
  FindForms();
  FindScaledLoops();
  Spread();
  // Twice: what is left of an unrolled loop begins where the loop ends.
  for (int round = 0; round < 2; ++round) {
    FindAdvancing();
    FindForms();
  }
}

// From the function's own parameters, not from what a call gave back.
bool AddressForms::IsParameter(const Instruction& instruction) const {
  return instruction.Is(Opcode::kLd) && IsOfParams(instruction) &&
         !slots_.contains(instruction.operands.back().variable);
}

// Of a pointer that was loaded: of one parameter the same each time.
Symbol AddressForms::Fetched(const Instruction& load) const {
  const Operand& from = load.operands.back();
  if (IsParameter(load) && from.variable && from.reg == ptx::kNoRegister)
    return {from.variable, 1 + static_cast<uint64_t>(from.value)};
  return {&load, 0};
}

AddressForm AddressForms::Of(const Operand& operand) const {
  AddressForm form;
  form.constant = operand.value;
  switch (operand.kind) {
    case Operand::Kind::kRegister:
    case Operand::Kind::kAddress:
      if (operand.reg != ptx::kNoRegister) {
        if (known_[operand.reg])
          Add(&form, *known_[operand.reg], 1);
        else
          form.terms[OfRegister(operand.reg)] = 1;
      }
      break;
    case Operand::Kind::kSpecialRegister:
      form.constant = 0;
      form.terms[OfSpecial(operand.special)] = 1;
      break;
    default:
      break;
  }
  if (operand.variable) form.terms[OfVariable(operand)] += 1;
  return form;
}

bool AddressForms::IsTangled(const AddressForm& form) const {
  return std::any_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
    const Symbol& symbol = term.first;
    if (symbol == OfSpecial(SpecialRegister::kLaneid)) return true;
    if (symbol.first == &kOfProducts) {
      const auto& ops = function_.body[symbol.second].operands;
      return ByThread(ops[1]) || ByThread(ops[2]);
    }
    return symbol.first == &kOfRegisters && facts_[symbol.second].by_thread;
  });
}

bool AddressForms::ThreadPart(const AddressForm& form, AddressForm* part) const {
  for (const auto& [symbol, count] : form.terms) {
    bool by_thread = symbol == OfSpecial(SpecialRegister::kTidX) ||
                     symbol == OfSpecial(SpecialRegister::kLaneid);
    if (symbol.first == &kOfProducts) {
      const auto& ops = function_.body[symbol.second].operands;
      by_thread = ByThread(ops[1]) || ByThread(ops[2]);
    } else if (symbol.first == &kOfRegisters) {
      by_thread = facts_[symbol.second].by_thread;
      if (by_thread && definitions_[symbol.second] != 1) return false;
    }
    if (by_thread) part->terms[symbol] = count;
  }
  return true;
}

bool AddressForms::IsAdvance(const Symbol& symbol) const {
  return symbol.first == &kOfAdvances ||
         (symbol.first == &kOfRegisters && definitions_[symbol.second] != 1);
}

bool AddressForms::IsFetched(const Symbol& symbol) const {
  return symbol.first == &kOfRegisters && fetched_[symbol.second];
}

bool AddressForms::RoundsDown(const Symbol& symbol) const {
  return symbol.first == &kOfRegisters && definitions_[symbol.second] == 1 &&
         rounds_[symbol.second];
}

bool AddressForms::IsPlace(const Symbol& symbol) const {
  if (symbol.first == &kOfSpecials) return true;
  if (symbol.first != &kOfRegisters) return false;
  return RoundsDown(symbol) || (definitions_[symbol.second] == 1 && given_[symbol.second]);
}

int64_t AddressForms::StepOf(const Symbol& symbol) const {
  return symbol.first == &kOfAdvances ? steps_[symbol.second] : 0;
}

bool AddressForms::ByBlock(const Symbol& symbol) const {
  if (symbol.first == &kOfSpecials)
    return static_cast<SpecialRegister>(symbol.second) == SpecialRegister::kCtaidX;
  if (symbol.first == &kOfProducts) {
    const auto& ops = function_.body[symbol.second].operands;
    return Read(ops[1]).by_block || Read(ops[2]).by_block;
  }
  return symbol.first == &kOfRegisters && facts_[symbol.second].by_block;
}

uint64_t AddressForms::RootsOfCall(const Instruction& call) const {
  uint64_t roots = Given(call).roots;
  if (const ptx::Function* callee = call.operands[1].function) {
    for (const Instruction& instruction : callee->body) {
      for (const Operand& operand : instruction.operands) {
        if (!operand.variable) continue;
        auto bit = bits_.find(OfVariable(operand));
        if (bit != bits_.end()) roots |= bit->second;
      }
    }
  }
  return roots;
}

// False: a symbol.
bool AddressForms::Evaluate(const Instruction& instruction, AddressForm* form) const {
  const auto& ops = instruction.operands;
  if (instruction.guard != ptx::kNoRegister || ops.size() < 2) return false;
  if (IsParameter(instruction)) {
    form->terms[Fetched(instruction)] = 1;
    return true;
  }
  if (ptx::IsFloat(instruction.type()) || ptx::BitsOf(instruction.type()) < 32) return false;
  const AddressForm a = Of(ops[1]);
  const AddressForm b = ops.size() > 2 ? Of(ops[2]) : AddressForm{};
  auto product = [&] {
    if (instruction.mods.mul_mode == ptx::MulMode::kHi) return false;
    if (a.terms.empty())
      Add(form, b, a.constant);
    else if (b.terms.empty())
      Add(form, a, b.constant);
    else
      return false;
    return true;
  };
  switch (instruction.opcode) {
    case Opcode::kMov:
    case Opcode::kCvta:
      *form = a;
      return !ops[1].Is(Operand::Kind::kVector) && !ops[1].function;
    case Opcode::kCvt:
      *form = a;
      return !ptx::IsFloat(instruction.type(1)) && ptx::BitsOf(instruction.type(1)) >= 32;
    case Opcode::kAdd:
    case Opcode::kSub:
      *form = a;
      Add(form, b, instruction.Is(Opcode::kAdd) ? 1 : -1);
      return !instruction.mods.cc;
    case Opcode::kNeg:
      Add(form, a, -1);
      return true;
    case Opcode::kMul:
      return product();
    case Opcode::kMad:
      if (instruction.mods.mul_mode == ptx::MulMode::kHi) return false;
      if (!product()) form->terms[{&kOfProducts, Index(instruction)}] = 1;
      Add(form, Of(ops[3]), 1);
      return true;
    case Opcode::kShl:
      if (!b.terms.empty() || b.constant < 0 || b.constant > 31) return false;
      Add(form, a, int64_t{1} << b.constant);
      return true;
    case Opcode::kOr: {
      // A sum where the two have no bit in common.
      if (!b.terms.empty() || b.constant <= 0) return false;
      const auto unit = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(b.constant) + 1));
      bool apart = a.constant % unit == 0;
      for (const auto& term : a.terms) apart &= term.second % unit == 0;
      *form = a;
      form->constant += b.constant;
      return apart;
    }
    default:
      return false;
  }
}

void AddressForms::CountDefinitions() {
  for (const Instruction& instruction : function_.body) {
    const bool gives = instruction.Is(Opcode::kLd) && IsOfParams(instruction) &&
                       slots_.contains(instruction.operands.back().variable);
    const bool fetches = Fetches(instruction) && !IsOfParams(instruction);
    ForResults(instruction, [&](RegisterId reg) {
      ++definitions_[reg];
      if (fetches) fetched_[reg] = true;
      if (RoundsItsOperand(instruction)) rounds_[reg] = true;
      if (gives) given_[reg] = true;
    });
  }
}

// What goes into calls and comes back from them.
void AddressForms::FindSlots() {
  for (const Instruction& instruction : function_.body) {
    if (!instruction.Is(Opcode::kCall)) continue;
    for (const Operand& list : instruction.operands) {
      for (const Operand& slot : list.elements)
        if (slot.variable) slots_[slot.variable];
    }
  }
}

void AddressForms::FindForms() {
  for (const Instruction& instruction : function_.body) {
    const auto& ops = instruction.operands;
    if (ops.empty() || !ops[0].Is(Operand::Kind::kRegister) || definitions_[ops[0].reg] != 1)
      continue;
    AddressForm form;
    if (Evaluate(instruction, &form) && form.terms.size() <= kMaxTerms)
      known_[ops[0].reg] = std::make_unique<AddressForm>(std::move(form));
  }
}

// Registers that begin somewhere and go on by what is the same for all threads, as pointers through
// a loop do: what they begin with, and a symbol.
void AddressForms::FindAdvancing() {
  struct Seen {
    uint32_t good = 0, beginnings = 0;
    AddressForm beginning;
    int64_t step = 0;
    bool even = true;  // by the same number each time
  };
  std::map<RegisterId, Seen> seen;
  for (const Instruction& instruction : function_.body) {
    const auto& ops = instruction.operands;
    if (ops.empty() || !ops[0].Is(Operand::Kind::kRegister) || definitions_[ops[0].reg] < 2)
      continue;
    const RegisterId to = ops[0].reg;
    AddressForm form;
    if (!Evaluate(instruction, &form) || form.terms.size() >= kMaxTerms) continue;
    Seen& all = seen[to];
    auto own = form.terms.find(OfRegister(to));
    if (own == form.terms.end()) {
      ++all.good;
      ++all.beginnings;
      all.beginning = std::move(form);
      continue;
    }
    const bool once = own->second == 1;
    form.terms.erase(own);
    if (!once || form.TakeThread() != 0 || IsTangled(form)) continue;
    ++all.good;
    all.even &= form.terms.empty() && (all.step == 0 || all.step == form.constant);
    all.step = form.constant;
  }
  for (auto& [reg, all] : seen) {
    if (all.good != definitions_[reg] || all.beginnings != 1) continue;
    all.beginning.terms[{&kOfAdvances, reg}] = 1;
    steps_[reg] = all.even ? all.step : 0;
    known_[reg] = std::make_unique<AddressForm>(std::move(all.beginning));
  }
}

void AddressForms::FindScaledLoops() {
  std::vector<std::vector<RegisterId>> to(function_.registers.size());
  auto for_edges = [&](const auto& visit) {
    for (const Instruction& instruction : function_.body) {
      if (PartInScaling(instruction) == Part::kNone) continue;
      ForResults(instruction, [&](RegisterId result) {
        for (size_t i = 1; i < instruction.operands.size(); ++i)
          ForRegisters(instruction.operands[i],
                       [&](RegisterId reg) { visit(instruction, reg, result); });
      });
    }
  };
  for_edges(
      [&](const Instruction&, RegisterId from, RegisterId result) { to[from].push_back(result); });
  const Components components(to);
  std::vector<bool> scaled(components.count() + 1, false);
  for_edges([&](const Instruction& instruction, RegisterId from, RegisterId result) {
    const bool scales = PartInScaling(instruction) == Part::kScales;
    if (scales && components.Same(from, result)) scaled[components.Of(from)] = true;
  });
  for (RegisterId reg = 0; reg < facts_.size(); ++reg)
    facts_[reg].scaled = scaled[components.Of(reg)];
}

}  // namespace farcall::cpu_device::jit
