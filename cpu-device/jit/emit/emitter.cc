// SPDX-License-Identifier: Apache-2.0
// The frame of a kernel: loop over threads or coroutine per thread, functions, basic blocks,
// guards.
#include "cpu-device/jit/emit/emitter.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Verifier.h>

#include <functional>
#include <utility>

#include "cpu-device/exec/object_loader.h"
#include "cpu-device/jit/exchange/spin_loop.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using ptx::Opcode;
using ptx::Space;

Emitter::Emitter(const CompileRequest& request, const WarpExchange& exchange, llvm::Module& module,
                 bool by_regions)
    : request_(request),
      exchange_(exchange),
      ptx_(*request.module),
      layout_(*request.layout),
      context_(module.getContext()),
      module_(module),
      b_(context_),
      by_regions_(by_regions) {}

bool Emitter::Fail(ExecStatus status, const std::string& text) {
  if (error_.empty()) {
    status_ = status;
    error_ = "kernel " + std::string(request_.entry->name) + ", " + text;
  }
  return false;
}

bool Emitter::Unsupported(const Instruction& instruction, const std::string& why) {
  return Fail(ExecStatus::kUnsupported, "line " + std::to_string(instruction.line) + ": " +
                                            std::string(instruction.mnemonic) +
                                            " is not supported by the CPU device" +
                                            (why.empty() ? "" : " (" + why + ")"));
}

bool Emitter::Suspends(const Instruction& instruction) {
  if (instruction.Is(Opcode::kMbarrier))
    return instruction.Part(1) == "test_wait" || instruction.Part(1) == "try_wait";
  return MeetsOthers(instruction) || instruction.Is(Opcode::kActivemask);
}

bool Emitter::ContainsSuspend(const ptx::Function& function) const {
  const bool steps = !function.is_entry && !layout_.recursive.contains(&function);
  for (size_t i = 0; i < function.body.size(); ++i) {
    const Instruction& instruction = function.body[i];
    if (Suspends(instruction)) return true;
    if (steps && IsVolatileOfCallee(instruction)) return true;
    if (!instruction.Is(Opcode::kBra)) continue;
    const auto target = static_cast<size_t>(instruction.operands[0].value);
    const auto last = static_cast<uint32_t>(i);
    if (target <= i && WaitsByLooking(function, static_cast<uint32_t>(target), last)) return true;
  }
  return false;
}

// Which functions must be inlined because a thread may stop or end inside, and whether the kernel
// is a coroutine.
void Emitter::Classify() {
  bool any_suspend = exchange_.any();
  std::unordered_set<const ptx::Function*> marked;
  for (const ptx::Function* function : layout_.functions) {
    bool suspends = ContainsSuspend(*function);
    any_suspend |= suspends;
    bool exits = false;
    for (const Instruction& instruction : function->body) exits |= instruction.Is(Opcode::kExit);
    if (suspends || exits) marked.insert(function);
  }
  if (any_suspend) form_ = by_regions_ ? CodeForm::kRegions : CodeForm::kCoroutine;
  for (bool changed = true; changed;) {
    changed = false;
    for (const ptx::Function* function : layout_.functions) {
      if (marked.count(function)) continue;
      for (const Instruction& instruction : function->body) {
        if (!instruction.Is(Opcode::kCall) || instruction.operands.size() < 2) continue;
        bool hit = false;
        if (instruction.operands[1].function)
          hit = marked.count(instruction.operands[1].function) != 0;
        else
          for (const ptx::Function* candidate : layout_.address_taken)
            hit |= marked.count(candidate) != 0;
        if (hit) {
          marked.insert(function);
          changed = true;
          break;
        }
      }
    }
  }
  must_inline_ = std::move(marked);
}

bool Emitter::EmitKernel() {
  Classify();
  for (const ptx::Function* function : layout_.recursive) {
    if (MustInline(function)) {
      return Fail(ExecStatus::kUnsupported,
                  "function " + std::string(function->name) + ", line " +
                      std::to_string(function->line) +
                      ": a barrier or exit in a recursive function is not "
                      "supported by the CPU device");
    }
  }
  llvm::Type* pointer = b_.getPtrTy();
  const bool coroutine = form_ == CodeForm::kCoroutine;
  llvm::FunctionType* type = coroutine ? llvm::FunctionType::get(pointer, {pointer, pointer}, false)
                                       : llvm::FunctionType::get(b_.getVoidTy(), {pointer}, false);
  llvm::Function* kernel =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                             llvm::StringRef(kKernelSymbol.data(), kKernelSymbol.size()), module_);
  kernel->setDSOLocal(true);
  kernel->setDoesNotThrow();
  kernel_ = kernel;
  const bool good = coroutine                     ? EmitCoroutineKernel(kernel)
                    : form_ == CodeForm::kRegions ? EmitThreadKernel(kernel)
                                                  : EmitLoopKernel(kernel);
  if (!good || !error_.empty()) return false;
  while (!to_outline_.empty()) {
    const ptx::Function* function = to_outline_.back();
    to_outline_.pop_back();
    if (!EmitOutlined(function, outlined_functions_[function])) return false;
  }
  return true;
}

// Both are there as long as the kernel runs: what is loaded from them may be so ahead of a branch.
llvm::Value* Emitter::LoadLaunch() {
  llvm_function_->addDereferenceableParamAttr(0, sizeof(BlockContext));
  llvm_function_->addParamAttr(0, llvm::Attribute::getWithAlignment(context_, llvm::Align(8)));
  Value* launch = BlockField(offsetof(BlockContext, launch), b_.getPtrTy());
  SetDereferenceable(launch, sizeof(LaunchContext));
  return launch;
}

void Emitter::SetDereferenceable(Value* loaded, uint64_t bytes) {
  auto note = [&](unsigned kind, uint64_t value) {
    llvm::Metadata* number = llvm::ConstantAsMetadata::get(b_.getInt64(value));
    llvm::cast<llvm::LoadInst>(loaded)->setMetadata(kind, llvm::MDNode::get(context_, number));
  };
  note(llvm::LLVMContext::MD_dereferenceable, bytes);
  note(llvm::LLVMContext::MD_align, 8);
}

// What a loop says whose iterations are threads.
llvm::MDNode* Emitter::UnorderedLoop() {
  llvm::MDNode* parallel = llvm::MDNode::get(
      context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), unordered_});
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context_, {nullptr, parallel});
  loop->replaceOperandWith(0, loop);
  return loop;
}

// for z, y, x: body(x, y, z)
bool Emitter::EmitLoopKernel(llvm::Function* kernel) {
  llvm_function_ = kernel;
  block_ = kernel->getArg(0);
  alloca_block_ = BasicBlock::Create(context_, "entry", kernel);
  b_.SetInsertPoint(alloca_block_);
  launch_ = LoadLaunch();
  thread_ = NewAlloca(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(ThreadContext)), "thread", 16);
  SetField(thread_, offsetof(ThreadContext, local),
           BlockField(offsetof(BlockContext, local), b_.getPtrTy()));
  llvm::AllocaInst* counters[4];
  Value* sizes[3];
  for (int i = 0; i < 4; ++i) counters[i] = NewAlloca(b_.getInt32Ty());
  for (int i = 0; i < 3; ++i) {
    sizes[i] = LaunchField(offsetof(LaunchContext, block) + 4 * i, b_.getInt32Ty());
    b_.CreateStore(Int32(0), counters[i]);
  }
  b_.CreateStore(Int32(0), counters[3]);
  BasicBlock* body = BasicBlock::Create(context_, "thread.body", kernel);
  BasicBlock* next = BasicBlock::Create(context_, "thread.next", kernel);
  BasicBlock* done = BasicBlock::Create(context_, "block.done", kernel);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  for (int i = 0; i < 3; ++i) {
    SetField(thread_, offsetof(ThreadContext, tid) + 4 * i,
             b_.CreateLoad(b_.getInt32Ty(), counters[i]));
  }
  Value* linear = b_.CreateLoad(b_.getInt32Ty(), counters[3]);
  SetField(thread_, offsetof(ThreadContext, linear), linear);
  SetField(thread_, offsetof(ThreadContext, local_top), Int64(layout_.local_bytes));
  exit_block_ = next;
  // Local memory is the same for each thread in turn, so it does order them.
  if (layout_.local_bytes == 0 && !layout_.needs_local_stack)
    unordered_ = llvm::MDNode::getDistinct(context_, {});
  if (!EmitEntry()) return false;

  b_.SetInsertPoint(next);
  b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), counters[3]), Int32(1)), counters[3]);
  for (int i = 0; i < 3; ++i) {
    Value* value = b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), counters[i]), Int32(1));
    b_.CreateStore(value, counters[i]);
    BasicBlock* carry = BasicBlock::Create(context_, "carry", kernel);
    llvm::BranchInst* latch = b_.CreateCondBr(b_.CreateICmpULT(value, sizes[i]), body, carry);
    if (i == 0 && unordered_) latch->setMetadata(llvm::LLVMContext::MD_loop, UnorderedLoop());
    b_.SetInsertPoint(carry);
    b_.CreateStore(Int32(0), counters[i]);
  }
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  b_.CreateRetVoid();
  return true;
}

bool Emitter::EmitCoroutineKernel(llvm::Function* kernel) {
  llvm_function_ = kernel;
  kernel->setPresplitCoroutine();
  block_ = kernel->getArg(0);
  thread_ = kernel->getArg(1);
  alloca_block_ = BasicBlock::Create(context_, "entry", kernel);
  b_.SetInsertPoint(alloca_block_);
  Value* null = llvm::ConstantPointerNull::get(b_.getPtrTy());
  Value* id = Intrinsic(llvm::Intrinsic::coro_id, {}, {Int32(64), null, null, null});
  Value* size = Intrinsic(llvm::Intrinsic::coro_size, {b_.getInt64Ty()}, {});
  Value* memory = Call("fc_rt_alloc_frame", b_.getPtrTy(), {block_, size});
  Value* handle = Intrinsic(llvm::Intrinsic::coro_begin, {}, {id, memory});
  launch_ = LoadLaunch();
  SetField(thread_, offsetof(ThreadContext, local_top), Int64(layout_.local_bytes));
  suspend_block_ = BasicBlock::Create(context_, "suspend", kernel);
  exit_block_ = BasicBlock::Create(context_, "final", kernel);
  BasicBlock* body = BasicBlock::Create(context_, "body", kernel);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  if (!EmitEntry()) return false;

  b_.SetInsertPoint(exit_block_);
  Value* none = llvm::ConstantTokenNone::get(context_);
  Value* state = Intrinsic(llvm::Intrinsic::coro_suspend, {}, {none, b_.getTrue()});
  BasicBlock* never = BasicBlock::Create(context_, "never", kernel);
  llvm::SwitchInst* choice = b_.CreateSwitch(state, suspend_block_, 1);
  choice->addCase(b_.getInt8(0), never);
  b_.SetInsertPoint(never);
  b_.CreateUnreachable();
  b_.SetInsertPoint(suspend_block_);
  Intrinsic(llvm::Intrinsic::coro_end, {}, {handle, b_.getFalse(), none});
  b_.CreateRet(handle);
  return true;
}

// What FormRegions makes a block's code of: one thread, which has its number from the marks.
bool Emitter::EmitThreadKernel(llvm::Function* kernel) {
  llvm_function_ = kernel;
  block_ = kernel->getArg(0);
  alloca_block_ = BasicBlock::Create(context_, "entry", kernel);
  b_.SetInsertPoint(alloca_block_);
  launch_ = LoadLaunch();
  unordered_ = llvm::MDNode::getDistinct(context_, {});
  thread_ = NewAlloca(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(ThreadContext)), "thread", 16);
  for (size_t i = 0; i < 3; ++i) {
    SetField(thread_, offsetof(ThreadContext, tid) + 4 * i,
             Call(kMarkTid[i], b_.getInt32Ty(), {}, /*pure=*/true));
  }
  Value* linear = Call(kMarkLinear, b_.getInt32Ty(), {}, /*pure=*/true);
  SetField(thread_, offsetof(ThreadContext, linear), linear);
  Value* bytes = BlockField(offsetof(BlockContext, local_bytes), b_.getInt64Ty());
  Value* local =
      b_.CreateGEP(b_.getInt8Ty(), BlockField(offsetof(BlockContext, local), b_.getPtrTy()),
                   b_.CreateMul(Resize(linear, 64), bytes));
  SetField(thread_, offsetof(ThreadContext, local), local);
  SetField(thread_, offsetof(ThreadContext, local_top), Int64(layout_.local_bytes));
  exit_block_ = BasicBlock::Create(context_, "exit", kernel);
  BasicBlock* body = BasicBlock::Create(context_, "body", kernel);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  if (!EmitEntry()) return false;
  b_.SetInsertPoint(exit_block_);
  b_.CreateRetVoid();
  return true;
}

// The entry's statements from the current block on, to the thread's exit.
bool Emitter::EmitEntry() {
  Scope scope;
  scope.function = request_.entry;
  scope.return_block = exit_block_;
  OpenScope(&scope);
  return EmitBody(&scope);
}

llvm::Function* Emitter::Outlined(const ptx::Function* function) {
  llvm::Function*& slot = outlined_functions_[function];
  if (!slot) {
    std::vector<llvm::Type*> types(2 + function->returns.size() + function->params.size(),
                                   b_.getPtrTy());
    slot = llvm::Function::Create(
        llvm::FunctionType::get(b_.getVoidTy(), types, false), llvm::GlobalValue::InternalLinkage,
        llvm::StringRef(function->name.data(), function->name.size()), module_);
    slot->setDoesNotThrow();
    to_outline_.push_back(function);
  }
  return slot;
}

bool Emitter::EmitOutlined(const ptx::Function* function, llvm::Function* body) {
  llvm_function_ = body;
  outlined_ = true;
  block_ = body->getArg(0);
  thread_ = body->getArg(1);
  alloca_block_ = BasicBlock::Create(context_, "entry", body);
  b_.SetInsertPoint(alloca_block_);
  launch_ = LoadLaunch();
  BasicBlock* first = BasicBlock::Create(context_, "body", body);
  b_.CreateBr(first);
  b_.SetInsertPoint(first);
  exit_block_ = nullptr;
  Scope scope;
  scope.function = function;
  scope.return_block = BasicBlock::Create(context_, "return", body);
  unsigned argument = 2;
  for (const auto& variable : function->returns)
    scope.param_slots[variable.get()] = body->getArg(argument++);
  for (const auto& variable : function->params)
    scope.param_slots[variable.get()] = body->getArg(argument++);
  OpenScope(&scope);
  if (!EmitBody(&scope)) return false;
  b_.SetInsertPoint(scope.return_block);
  b_.CreateRetVoid();
  return true;
}

void Emitter::OpenScope(Scope* scope) {
  const ptx::Function& function = *scope->function;
  // Zero at the start of each thread: PTX leaves it open, and no value may leak from thread to
  // thread.
  scope->registers.resize(function.registers.size());
  for (size_t i = 0; i < function.registers.size(); ++i) {
    llvm::Type* type = TypeOf(function.registers[i].type);
    scope->registers[i] = NewAlloca(type);
    b_.CreateStore(llvm::Constant::getNullValue(type), scope->registers[i]);
  }
  scope->carry = NewAlloca(b_.getInt1Ty());
  b_.CreateStore(b_.getFalse(), scope->carry);
  scope->blocks.assign(function.body.size() + 1, nullptr);
  for (const ptx::Label& label : function.labels) {
    BasicBlock*& block = scope->blocks[label.instruction];
    if (!block) {
      block = BasicBlock::Create(context_, llvm::StringRef(label.name.data(), label.name.size()),
                                 llvm_function_);
    }
  }
  if (function.is_entry) {
    Value* params = LaunchField(offsetof(LaunchContext, params), b_.getPtrTy());
    if (function.param_bytes) SetDereferenceable(params, function.param_bytes);
    for (const auto& variable : function.params) {
      scope->param_slots[variable.get()] =
          b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), params, variable->param_offset);
    }
  }
  for (const auto& variable : function.locals) {
    if (variable->space != Space::kParam) continue;
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), std::max<uint64_t>(variable->size_bytes, 8));
    scope->param_slots[variable.get()] = NewAlloca(type, "param", std::max(variable->align, 8u));
  }
}

bool Emitter::EmitBody(Scope* scope) {
  Scope* outer = std::exchange(scope_, scope);
  uint32_t outer_index = index_;
  const ptx::Function& function = *scope->function;
  // .reg parameters of a callee
  for (const auto& variable : function.params) {
    if (variable->reg == ptx::kNoRegister || function.is_entry) continue;
    Operand target;
    target.kind = Operand::Kind::kRegister;
    target.reg = variable->reg;
    Write(target, b_.CreateLoad(TypeOf(variable->type), scope->param_slots[variable.get()]));
  }
  Value* saved_top = nullptr;
  if (!function.is_entry && layout_.needs_local_stack) {
    saved_top = ThreadField(offsetof(ThreadContext, local_top), b_.getInt64Ty(), false);
    if (layout_.recursive.count(&function) != 0) {
      uint32_t bytes = 0;
      for (const auto& variable : function.locals) {
        if (variable->space != Space::kLocal) continue;
        uint32_t align = std::max(variable->align, 1u);
        bytes = (bytes + align - 1) / align * align;
        scope->recursive_offset[variable.get()] = bytes;
        bytes += static_cast<uint32_t>(variable->size_bytes);
      }
      if (bytes) {
        scope->recursive_base = saved_top;
        Value* top = b_.CreateAdd(saved_top, Int64((bytes + 15) & ~15u));
        Value* limit = BlockField(offsetof(BlockContext, local_bytes), b_.getInt64Ty());
        BasicBlock* full = BasicBlock::Create(context_, "stack.full", llvm_function_);
        BasicBlock* fits = BasicBlock::Create(context_, "stack.fits", llvm_function_);
        b_.CreateCondBr(b_.CreateICmpULE(top, limit), fits, full);
        b_.SetInsertPoint(full);
        Call("fc_rt_stack_overflow", b_.getVoidTy(), {top, limit});
        b_.CreateUnreachable();
        b_.SetInsertPoint(fits);
        SetField(thread_, offsetof(ThreadContext, local_top), top);
      }
    }
  }
  BasicBlock* leave = scope->return_block;
  bool register_returns = false;
  for (const auto& variable : function.returns)
    register_returns |= variable->reg != ptx::kNoRegister;
  bool epilogue = saved_top || register_returns;
  if (epilogue) scope->return_block = BasicBlock::Create(context_, "unwind", llvm_function_);

  bool good = true;
  for (uint32_t i = 0; i < function.body.size() && good; ++i) {
    index_ = i;
    if (BasicBlock* labelled = scope->blocks[i]) {
      if (!b_.GetInsertBlock()->getTerminator()) b_.CreateBr(labelled);
      b_.SetInsertPoint(labelled);
    } else if (b_.GetInsertBlock()->getTerminator()) {
      b_.SetInsertPoint(BasicBlock::Create(context_, "dead", llvm_function_));
    }
    if (InEntry() && exchange_.StepsAt(i)) StepTogether();
    good = Emit(function.body[i]);
  }
  if (good) {
    if (BasicBlock* end = scope->blocks[function.body.size()]) {
      if (!b_.GetInsertBlock()->getTerminator()) b_.CreateBr(end);
      b_.SetInsertPoint(end);
    }
    if (!b_.GetInsertBlock()->getTerminator()) b_.CreateBr(scope->return_block);
    if (epilogue) {
      b_.SetInsertPoint(scope->return_block);
      if (saved_top) SetField(thread_, offsetof(ThreadContext, local_top), saved_top);
      for (const auto& variable : function.returns) {
        if (variable->reg == ptx::kNoRegister) continue;
        b_.CreateStore(Cast(ReadRegister(variable->reg), TypeOf(variable->type)),
                       scope->param_slots[variable.get()]);
      }
      b_.CreateBr(leave);
    }
    scope->return_block = leave;
  }
  scope_ = outer;
  index_ = outer_index;
  return good;
}

}  // namespace farcall::cpu_device::jit
