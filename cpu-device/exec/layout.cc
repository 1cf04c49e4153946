// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/layout.h"

#include <algorithm>

namespace farcall::cpu_device {
namespace {

using ptx::Function;
using ptx::Operand;
using ptx::Space;
using ptx::Variable;

uint32_t AlignUp(uint32_t value, uint32_t align) {
  return align ? (value + align - 1) / align * align : value;
}

class LayoutBuilder {
 public:
  LayoutBuilder(ptx::Module& module, KernelLayout* layout) : module_(module), layout_(layout) {}

  std::string Build(Function& entry) {
    Visit(entry);
    if (error_.empty() && layout_->has_indirect_calls) VisitAddressTaken();
    if (!error_.empty()) return error_;
    uint32_t align = 16;
    for (const Variable* variable : dynamic_) align = std::max(align, variable->align);
    layout_->shared_align = std::max(layout_->shared_align, align);
    layout_->shared_align = std::min(layout_->shared_align, kMaxAlign);
    layout_->local_align = std::min(layout_->local_align, kMaxAlign);
    layout_->static_shared_bytes = shared_;
    if (layout_->uses_reserved_shared) {
      layout_->reserved_shared_offset = AlignUp(shared_, 128);
      shared_ = layout_->reserved_shared_offset + kReservedSharedBytes;
    }
    layout_->dynamic_shared_offset = AlignUp(shared_, align);
    for (const Variable* variable : dynamic_)
      layout_->shared_offset[variable] = layout_->dynamic_shared_offset;
    layout_->local_bytes = AlignUp(local_, layout_->local_align);
    return "";
  }

 private:
  enum class State { kOpen, kDone };

  void Visit(Function& function) {
    if (!error_.empty() || state_.count(&function)) {
      if (state_.count(&function) && state_[&function] == State::kOpen) MarkCycle(&function);
      return;
    }
    if (!function.has_body) return;
    ptx::ParseResult parsed = module_.EnsureBody(function);
    if (!parsed.ok()) {
      error_ = parsed.message;
      return;
    }
    state_[&function] = State::kOpen;
    stack_.push_back(&function);
    layout_->functions.push_back(&function);
    for (const ptx::Instruction& instruction : function.body) {
      if (instruction.Is(ptx::Opcode::kAlloca)) layout_->needs_local_stack = true;
      if (instruction.Is(ptx::Opcode::kMapa)) layout_->maps_blocks = true;
      if (instruction.Is(ptx::Opcode::kCall) && instruction.operands.size() > 1 &&
          instruction.operands[1].Is(Operand::Kind::kRegister))
        layout_->has_indirect_calls = true;
      for (const Operand& operand : instruction.operands) Scan(operand, instruction);
    }
    stack_.pop_back();
    state_[&function] = State::kDone;
    PlaceLocals(function);
    if (function.is_entry) {
      uint32_t bits = 0;
      for (const ptx::Register& r : function.registers) bits += std::max(32u, BitsOf(r.type));
      layout_->register_count = bits / 32;
    }
  }

  void Scan(const Operand& operand, const ptx::Instruction& instruction) {
    if (operand.variable) PlaceShared(operand.variable);
    // An entry is launched, not called.
    if (operand.function && !operand.function->is_entry) {
      if (!instruction.Is(ptx::Opcode::kCall)) layout_->address_taken.insert(operand.function);
      // a declaration's definition, or what an alias stands for
      Function* target = module_.FindFunction(operand.function->name);
      Visit(target ? *target : *const_cast<Function*>(operand.function));
    }
    if (operand.Is(Operand::Kind::kSpecialRegister) &&
        operand.special == ptx::SpecialRegister::kEnvreg &&
        (operand.value == 1 || operand.value == 2))
      layout_->uses_grid_workspace = true;
    if (operand.Is(Operand::Kind::kSpecialRegister) &&
        operand.special >= ptx::SpecialRegister::kReservedSmemOffsetBegin &&
        operand.special <= ptx::SpecialRegister::kReservedSmemOffset1)
      layout_->uses_reserved_shared = true;
    for (const Operand& element : operand.elements) Scan(element, instruction);
  }

  // Functions whose address stands in an initialiser (vtables) or in code.
  void VisitAddressTaken() {
    for (const auto& variable : module_.globals) {
      for (const ptx::Relocation& relocation : variable->relocations) {
        if (!relocation.function || relocation.function->is_entry) continue;
        layout_->address_taken.insert(relocation.function);
        Visit(*const_cast<Function*>(relocation.function));
      }
    }
  }

  void MarkCycle(const Function* head) {
    for (auto it = stack_.rbegin(); it != stack_.rend(); ++it) {
      layout_->recursive.insert(*it);
      if (*it == head) break;
    }
    layout_->needs_local_stack = true;
  }

  void PlaceShared(const Variable* variable) {
    if (variable->space != Space::kShared || layout_->shared_offset.count(variable)) return;
    if (variable->size_bytes == 0) {
      if (std::find(dynamic_.begin(), dynamic_.end(), variable) == dynamic_.end())
        dynamic_.push_back(variable);
      return;
    }
    layout_->shared_align = std::max(layout_->shared_align, variable->align);
    shared_ = AlignUp(shared_, variable->align);
    layout_->shared_offset[variable] = shared_;
    shared_ += static_cast<uint32_t>(variable->size_bytes);
  }

  // Without recursion a function is active at most once, so its locals have one place.
  void PlaceLocals(const Function& function) {
    for (const auto& variable : function.locals) {
      if (variable->space != Space::kLocal) continue;
      layout_->local_align = std::max(layout_->local_align, variable->align);
      local_ = AlignUp(local_, std::max(variable->align, 1u));
      layout_->local_offset[variable.get()] = local_;
      local_ += static_cast<uint32_t>(variable->size_bytes);
    }
  }

  ptx::Module& module_;
  KernelLayout* layout_;
  std::string error_;
  std::unordered_map<const Function*, State> state_;
  std::vector<const Function*> stack_;
  std::vector<const Variable*> dynamic_;
  uint32_t shared_ = 0, local_ = 0;
};

}  // namespace

std::string ComputeLayout(ptx::Module& module, ptx::Function& entry, KernelLayout* layout) {
  return LayoutBuilder(module, layout).Build(entry);
}

}  // namespace farcall::cpu_device
