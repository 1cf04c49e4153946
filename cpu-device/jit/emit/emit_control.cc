// SPDX-License-Identifier: Apache-2.0
// Branches and calls.
#include <llvm/IR/MDBuilder.h>

#include "cpu-device/exec/function_ids.h"
#include "cpu-device/jit/emit/emitter.h"
#include "cpu-device/jit/exchange/spin_loop.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;

void Emitter::Unreachable() {
  b_.CreateUnreachable();
}

void Emitter::EmitExit() {
  b_.CreateBr(exit_block_);
}

// So that a grid that runs too long, or of which a block has failed, can be stopped.
void Emitter::PollCancel() {
  if (form_ == CodeForm::kRegions && !outlined_) {
    CallMark(kMarkPoll);
    return;
  }
  llvm::LoadInst* flag = b_.CreateLoad(
      b_.getInt32Ty(),
      b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), launch_, offsetof(LaunchContext, cancel)));
  flag->setVolatile(true);
  BasicBlock* cancelled = BasicBlock::Create(context_, "cancelled", llvm_function_);
  BasicBlock* go_on = BasicBlock::Create(context_, "go.on", llvm_function_);
  llvm::MDNode* unlikely = llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20);
  b_.CreateCondBr(b_.CreateICmpNE(flag, Int32(0)), cancelled, go_on, unlikely);
  b_.SetInsertPoint(cancelled);
  Call("fc_rt_cancelled", b_.getVoidTy(), {});
  b_.CreateUnreachable();
  b_.SetInsertPoint(go_on);
}

void Emitter::BranchTo(uint32_t target) {
  if (target <= index_) {
    PollCancel();
    if (InEntry() && exchange_.StepsAtLoop(target, index_)) StepTogether();
    if (CanSuspend() && IsSpinLoop(*scope_->function, target, index_)) Yield();
  }
  b_.CreateBr(scope_->blocks[target]);
}

bool Emitter::EmitBranch(const Instruction& instruction) {
  auto target = static_cast<uint64_t>(instruction.operands[0].value);
  if (!instruction.operands[0].Is(Operand::Kind::kLabel) || target >= scope_->blocks.size() ||
      !scope_->blocks[target])
    return Unsupported(instruction, "target");
  if (instruction.guard == ptx::kNoRegister) {
    BranchTo(static_cast<uint32_t>(target));
    return true;
  }
  Value* condition = ReadRegister(instruction.guard);
  if (instruction.guard_negated) condition = b_.CreateNot(condition);
  BasicBlock* next = BasicBlock::Create(context_, "next", llvm_function_);
  if (target > index_) {
    b_.CreateCondBr(condition, scope_->blocks[target], next);
  } else {
    BasicBlock* taken = BasicBlock::Create(context_, "taken", llvm_function_);
    b_.CreateCondBr(condition, taken, next);
    b_.SetInsertPoint(taken);
    BranchTo(static_cast<uint32_t>(target));
  }
  b_.SetInsertPoint(next);
  return true;
}

bool Emitter::EmitBranchIndexed(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  if (ops.size() < 2 || !ops[1].Is(Operand::Kind::kTable)) return Unsupported(instruction);
  const ptx::LabelTable& table =
      scope_->function->branch_targets[static_cast<size_t>(ops[1].value)];
  Value* index = ReadInt(ops[0], 32);
  for (uint32_t target : table.targets) {
    if (target <= index_) {
      PollCancel();
      break;
    }
  }
  BasicBlock* outside = BasicBlock::Create(context_, "brx.outside", llvm_function_);
  llvm::SwitchInst* choice =
      b_.CreateSwitch(index, outside, static_cast<unsigned>(table.targets.size()));
  for (size_t i = 0; i < table.targets.size(); ++i)
    choice->addCase(b_.getInt32(static_cast<uint32_t>(i)), scope_->blocks[table.targets[i]]);
  b_.SetInsertPoint(outside);
  Call("fc_rt_trap", b_.getVoidTy(), {Int32(instruction.line)});
  b_.CreateUnreachable();
  return true;
}

// Pointers to the slots a callee reads its parameters from and writes its results to.
bool Emitter::PrepareArguments(const Instruction& instruction, const ptx::Function* function,
                               std::vector<Value*>* returns, std::vector<Value*>* params) {
  const Operand& results = instruction.operands[0];
  static const Operand kNone;
  const Operand& arguments = instruction.operands.size() > 2 ? instruction.operands[2] : kNone;
  // A unit may have declared a result that another's definition lacks, as Numba does of a C
  // function without one; the linker takes it, and the result is no number in particular.
  if (results.elements.size() < function->returns.size() ||
      arguments.elements.size() != function->params.size())
    return Unsupported(instruction, "argument count of " + std::string(function->name));
  auto slot_of = [&](const Operand& operand, const ptx::Variable& declared, bool store) -> Value* {
    if (operand.variable) {
      auto it = scope_->param_slots.find(operand.variable);
      if (it != scope_->param_slots.end())
        return operand.variable->size_bytes >= declared.size_bytes ? it->second : nullptr;
    }
    Value* slot = NewAlloca(TypeOf(declared.type), "argument", 8);
    if (store) b_.CreateStore(Read(operand, declared.type), slot);
    return slot;
  };
  for (size_t i = 0; i < function->returns.size(); ++i) {
    returns->push_back(slot_of(results.elements[i], *function->returns[i], false));
    if (!returns->back()) return Unsupported(instruction, "size of a result");
  }
  for (size_t i = 0; i < function->params.size(); ++i) {
    params->push_back(slot_of(arguments.elements[i], *function->params[i], true));
    if (!params->back()) return Unsupported(instruction, "size of an argument");
  }
  return true;
}

// Results that go to registers instead of .param variables.
bool Emitter::StoreReturns(const Instruction& instruction, llvm::ArrayRef<Value*> returns) {
  const Operand& results = instruction.operands[0];
  for (size_t i = 0; i < results.elements.size(); ++i) {
    if (!results.elements[i].Is(Operand::Kind::kRegister) || i >= returns.size()) continue;
    auto* slot = llvm::dyn_cast<llvm::AllocaInst>(returns[i]);
    if (slot) Write(results.elements[i], b_.CreateLoad(slot->getAllocatedType(), slot));
  }
  return true;
}

bool Emitter::CallFunction(const Instruction& instruction, const ptx::Function* function) {
  std::vector<Value*> returns, params;
  if (!function->body_parsed)
    return Unsupported(instruction, "call of " + std::string(function->name));
  if (!PrepareArguments(instruction, function, &returns, &params)) return false;
  if (!MustInline(function)) {
    std::vector<Value*> all = {block_, thread_};
    all.insert(all.end(), returns.begin(), returns.end());
    all.insert(all.end(), params.begin(), params.end());
    b_.CreateCall(Outlined(function), all)->setDoesNotThrow();
    return StoreReturns(instruction, returns);
  }
  Scope scope;
  scope.function = function;
  scope.caller = scope_;
  scope.return_block = BasicBlock::Create(context_, "returned", llvm_function_);
  for (size_t i = 0; i < returns.size(); ++i)
    scope.param_slots[function->returns[i].get()] = returns[i];
  for (size_t i = 0; i < params.size(); ++i)
    scope.param_slots[function->params[i].get()] = params[i];
  OpenScope(&scope);
  if (!EmitBody(&scope)) return false;
  b_.SetInsertPoint(scope.return_block);
  return StoreReturns(instruction, returns);
}

bool Emitter::EmitCall(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  if (ops.size() < 2) return Unsupported(instruction);
  const ptx::Function* function = ops[1].function;
  if (!function) return EmitIndirectCall(instruction);
  if (const ptx::Function* target = ptx_.FindFunction(function->name)) {
    if (target->has_body) function = target;  // a forward declaration's definition, or an alias
  }
  if (function->has_body) return CallFunction(instruction, function);
  bool known = false;
  if (!CallBuiltin(instruction, function->name, &known)) return false;
  return known || Unsupported(instruction, "call of " + std::string(function->name));
}

// A chain of comparisons with the functions whose address is taken and whose shape fits.
bool Emitter::EmitIndirectCall(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* target = ReadInt(ops[1], 64);
  size_t returns = ops[0].elements.size(), params = ops.size() > 2 ? ops[2].elements.size() : 0;
  BasicBlock* done = BasicBlock::Create(context_, "called", llvm_function_);
  std::vector<const ptx::Function*> candidates(layout_.address_taken.begin(),
                                               layout_.address_taken.end());
  std::sort(candidates.begin(), candidates.end(),
            [](auto* a, auto* b) { return a->index < b->index; });
  auto fits = [&](const Operand& operand, const ptx::Variable& declared) {
    return !operand.variable || operand.variable->size_bytes == declared.size_bytes;
  };
  for (const ptx::Function* candidate : candidates) {
    if (!candidate->has_body || candidate->is_entry || candidate->returns.size() != returns ||
        candidate->params.size() != params)
      continue;
    bool same = true;
    for (size_t i = 0; i < returns; ++i) same &= fits(ops[0].elements[i], *candidate->returns[i]);
    for (size_t i = 0; i < params; ++i) same &= fits(ops[2].elements[i], *candidate->params[i]);
    if (!same) continue;
    BasicBlock* hit = BasicBlock::Create(context_, "callee", llvm_function_);
    BasicBlock* next = BasicBlock::Create(context_, "not.callee", llvm_function_);
    b_.CreateCondBr(b_.CreateICmpEQ(target, Int64(FunctionId(candidate->index))), hit, next);
    b_.SetInsertPoint(hit);
    if (!CallFunction(instruction, candidate)) return false;
    if (!b_.GetInsertBlock()->getTerminator()) b_.CreateBr(done);
    b_.SetInsertPoint(next);
  }
  Call("fc_rt_bad_call", b_.getVoidTy(), {target, Int32(instruction.line)});
  b_.CreateUnreachable();
  b_.SetInsertPoint(done);
  return true;
}

}  // namespace farcall::cpu_device::jit
