// SPDX-License-Identifier: Apache-2.0
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic ignored "-Warray-bounds"  // wrong where GCC 12 inlines the library
#endif

#include "cpu-device/jit/regions/loops_in_step.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "cpu-device/exec/context.h"
#include "cpu-device/jit/regions/analyses.h"
#include "cpu-device/jit/regions/leaves.h"
#include "cpu-device/jit/regions/marks.h"
#include "cpu-device/jit/regions/thread_stride.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::PHINode;
using llvm::Value;

namespace {

// Each is analysed anew, and carries what a thread keeps of a turn through memory.
constexpr unsigned kMaxLoops = 8;
constexpr size_t kMaxInstructions = 200;

struct StepLoop {
  const llvm::Cycle* cycle = nullptr;
  BasicBlock *header = nullptr, *before = nullptr, *latch = nullptr;
  BasicBlock *leaves = nullptr, *exit = nullptr;  // the edge by which threads leave it
  BasicBlock* guard = nullptr;   // decides which threads come here at all; null: all do
  BasicBlock* around = nullptr;  // where it sends the others
};

// The loop as turns that all threads make together.
struct Turns {
  BasicBlock* before = nullptr;  // where they come from
  // Asks whether any thread is left; sends those that are into the loop; where they leave it; where
  // all meet again.
  BasicBlock *turn = nullptr, *take = nullptr, *out = nullptr, *done = nullptr;
  PHINode* takes = nullptr;  // whether this thread takes part
  llvm::BranchInst* back = nullptr;
  llvm::SmallVector<Value*, 16> values;   // that may be used behind the loop
  llvm::DenseMap<Value*, PHINode*> kept;  // by the next turn's value
};

class InStep {
 public:
  InStep(llvm::Function& kernel, Analyses& known)
      : kernel_(kernel), known_(known), flow_(kernel), outs_(kernel, known.divergence, flow_) {}

  bool Find(const llvm::Cycle& cycle, StepLoop* loop);
  void Make(const StepLoop& loop);

 private:
  bool FindEdges(StepLoop* loop);
  bool IsWorthIt(const llvm::Cycle& cycle);
  bool FindGuard(StepLoop* loop);
  bool LeavesApart(const StepLoop& loop) const {
    return known_.divergence.Branches(loop.leaves) || loop.guard;
  }
  void MeetEachTurn(const StepLoop& loop);
  void MakeMasked(const StepLoop& loop);
  void PutPart(const StepLoop& loop, Turns* turns);
  void KeepPhis(const StepLoop& loop, Turns* turns);
  bool IsBehind(const StepLoop& loop, const Turns& turns, const llvm::Use& use);
  void KeepLast(const StepLoop& loop, Turns* turns);
  void EndTurns(const StepLoop& loop, const Turns& turns, Value* condition);
  static llvm::SetVector<BasicBlock*> Way(const StepLoop& loop);
  BasicBlock* Gather(const StepLoop& loop);
  void Hoist(const StepLoop& loop);
  llvm::CallInst* Mark(llvm::IRBuilder<>& b, const char* name, llvm::Type* result,
                       llvm::ArrayRef<Value*> arguments);

  llvm::Function& kernel_;
  Analyses& known_;
  ControlFlow flow_;
  Leaves outs_;
};

bool InStep::FindEdges(StepLoop* loop) {
  const llvm::Cycle& cycle = *loop->cycle;
  loop->header = cycle.getHeader();
  loop->before = cycle.getCyclePreheader();
  if (!cycle.isReducible() || !loop->before || loop->before == &kernel_.getEntryBlock())
    return false;
  for (BasicBlock* block : cycle.blocks()) {
    for (BasicBlock* next : llvm::successors(block)) {
      if (next == loop->header) {
        if (loop->latch) return false;
        loop->latch = block;
      } else if (!cycle.contains(next) && flow_.Returns(next)) {
        if (loop->exit) return false;
        loop->leaves = block;
        loop->exit = next;
      }
    }
  }
  return loop->exit && loop->exit->getSinglePredecessor() == loop->leaves &&
         llvm::isa<llvm::BranchInst>(loop->leaves->getTerminator());
}

// Nothing but plain accesses, and these side by side for neighbours, or at one place for all.
bool InStep::IsWorthIt(const llvm::Cycle& cycle) {
  size_t instructions = 0, beside = 0;
  for (const BasicBlock* block : cycle.blocks()) {
    instructions += block->size();
    for (const Instruction& instruction : *block) {
      const Value* address = nullptr;
      llvm::Type* type = instruction.getType();
      if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
        if (!load->isSimple()) return false;
        address = load->getPointerOperand();
      } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
        if (!store->isSimple()) return false;
        address = store->getPointerOperand();
        type = store->getValueOperand()->getType();
      } else if (auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) {
        const llvm::Function* callee = call->getCalledFunction();
        const bool harmless = MarkOf(*call) == kMarkPoll || call->doesNotAccessMemory() ||
                              (callee && callee->getName() == "fc_rt_check") ||
                              llvm::isa<llvm::AssumeInst>(call);
        if (!harmless) return false;
      } else if (instruction.mayReadOrWriteMemory() || llvm::isa<llvm::AllocaInst>(instruction)) {
        return false;
      }
      if (!address || instruction.hasMetadata(llvm::LLVMContext::MD_invariant_load)) continue;
      const std::optional<int64_t> stride =
          ThreadStride(address, known_.divergence, kernel_.getDataLayout());
      const auto bytes = static_cast<int64_t>(kernel_.getDataLayout().getTypeAllocSize(type));
      if (!stride || *stride < 0 || *stride > bytes) return false;
      ++beside;
    }
  }
  return beside != 0 && instructions <= kMaxInstructions;
}

// Threads that go around the loop have to do so by one branch, and come to nothing but the loop by
// the other way.
bool InStep::FindGuard(StepLoop* loop) {
  for (BasicBlock& block : kernel_) {
    if (loop->cycle->contains(&block) || !known_.divergence.Branches(&block)) continue;
    if (!outs_.Of(&block).empty()) continue;
    if (!llvm::is_contained(flow_.Decided(&block), loop->header)) continue;
    if (loop->guard) return false;
    loop->guard = &block;
  }
  if (!loop->guard) return true;
  auto* branch = llvm::dyn_cast<llvm::BranchInst>(loop->guard->getTerminator());
  if (!branch || !branch->isConditional()) return false;
  loop->around = flow_.Meets(loop->guard);
  const unsigned around = branch->getSuccessor(0) == loop->around ? 0 : 1;
  if (branch->getSuccessor(around) != loop->around) return false;
  for (BasicBlock* at = branch->getSuccessor(1 - around); at != loop->header;
       at = at->getSingleSuccessor())
    if (!at || !at->getSinglePredecessor()) return false;
  // One thread alone, as `if (threadIdx.x == 0)` has it, is better off for itself.
  auto* compare = llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition());
  const auto one = around == 1 ? llvm::CmpInst::ICMP_EQ : llvm::CmpInst::ICMP_NE;
  return !compare || compare->getPredicate() != one;
}

bool InStep::Find(const llvm::Cycle& cycle, StepLoop* loop) {
  *loop = {};
  loop->cycle = &cycle;
  if (!cycle.children().empty() || !FindEdges(loop)) return false;
  for (const BasicBlock* block : cycle.blocks())
    if (llvm::any_of(*block, [](const Instruction& i) { return IsMeeting(i); })) return false;
  return IsWorthIt(cycle) && FindGuard(loop);
}

llvm::CallInst* InStep::Mark(llvm::IRBuilder<>& b, const char* name, llvm::Type* result,
                             llvm::ArrayRef<Value*> arguments) {
  llvm::SmallVector<llvm::Type*, 2> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  llvm::CallInst* call = b.CreateCall(
      kernel_.getParent()->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)),
      arguments);
  call->setDoesNotThrow();
  return call;
}

void InStep::MeetEachTurn(const StepLoop& loop) {
  llvm::IRBuilder<> b(loop.header, loop.header->getFirstInsertionPt());
  Mark(b, kMarkMeet, b.getVoidTy(), {});
}

// From the loop back to its guard.
llvm::SetVector<BasicBlock*> InStep::Way(const StepLoop& loop) {
  llvm::SetVector<BasicBlock*> way;
  for (BasicBlock* at = loop.before; at != loop.guard; at = at->getSinglePredecessor())
    way.insert(at);
  return way;
}

// What the way from the guard to the loop computes is computed ahead of the guard, where it may be.
void InStep::Hoist(const StepLoop& loop) {
  Instruction* at = loop.guard->getTerminator();
  const llvm::SetVector<BasicBlock*> way = Way(loop);
  for (BasicBlock* block : llvm::reverse(way)) {
    for (Instruction& instruction : llvm::make_early_inc_range(*block)) {
      if (instruction.isTerminator() || llvm::isa<PHINode>(instruction)) continue;
      const bool known = llvm::all_of(instruction.operands(), [&](const llvm::Use& use) {
        auto* operand = llvm::dyn_cast<Instruction>(use.get());
        return !operand || known_.tree.dominates(operand->getParent(), loop.guard);
      });
      if (!known || instruction.mayReadOrWriteMemory() ||
          !llvm::isSafeToSpeculativelyExecute(&instruction))
        continue;
      instruction.moveBefore(at);
    }
  }
}

// The block in front of the loop, where those that go around it come too: with what the others
// bring, and nothing of their own.
BasicBlock* InStep::Gather(const StepLoop& loop) {
  const llvm::SetVector<BasicBlock*> way = Way(loop);
  BasicBlock* gather = BasicBlock::Create(kernel_.getContext(), "gather", &kernel_, loop.header);
  loop.before->getTerminator()->replaceSuccessorWith(loop.header, gather);
  loop.guard->getTerminator()->replaceSuccessorWith(loop.around, gather);
  llvm::BranchInst::Create(loop.header, gather);
  for (PHINode& phi : loop.header->phis()) phi.replaceIncomingBlockWith(loop.before, gather);
  for (BasicBlock* block : way) {
    for (Instruction& instruction : *block) {
      PHINode* brought = nullptr;
      for (llvm::Use& use : llvm::make_early_inc_range(instruction.uses())) {
        if (way.contains(llvm::cast<Instruction>(use.getUser())->getParent())) continue;
        if (!brought) {
          brought = PHINode::Create(instruction.getType(), 2, "", gather->begin());
          brought->addIncoming(llvm::PoisonValue::get(instruction.getType()), loop.guard);
        }
        use.set(brought);
      }
      if (brought) brought->addIncoming(&instruction, loop.before);
    }
  }
  return gather;
}

// Who takes part in a turn: all that come, then those that go on.
void InStep::PutPart(const StepLoop& loop, Turns* turns) {
  llvm::IRBuilder<> b(turns->turn);
  Value* part = b.getTrue();
  if (loop.guard) {
    PHINode* comes = PHINode::Create(b.getInt1Ty(), 2, "comes", turns->before->begin());
    comes->addIncoming(b.getTrue(), loop.before);
    comes->addIncoming(b.getFalse(), loop.guard);
    part = comes;
  }
  turns->takes = b.CreatePHI(b.getInt1Ty(), 2, "takes");
  b.SetInsertPoint(turns->done);
  PHINode* again = b.CreatePHI(b.getInt1Ty(), 3, "again");
  turns->back = b.CreateBr(turns->turn);
  again->addIncoming(b.getFalse(), turns->take);
  again->addIncoming(b.getFalse(), turns->out);
  again->addIncoming(b.getTrue(), loop.latch);
  turns->takes->addIncoming(part, turns->before);
  turns->takes->addIncoming(again, turns->done);
}

// The loop's own values stay with a thread that takes no part.
void InStep::KeepPhis(const StepLoop& loop, Turns* turns) {
  auto made_in_time = [&](Value* value) {
    auto* instruction = llvm::dyn_cast<Instruction>(value);
    return instruction && !llvm::isa<PHINode>(instruction) &&
           loop.cycle->contains(instruction->getParent()) &&
           known_.tree.dominates(instruction->getParent(), loop.leaves);
  };
  for (PHINode& phi : llvm::make_early_inc_range(loop.header->phis())) {
    Value* begin = phi.getIncomingValueForBlock(turns->before);
    Value* next = phi.getIncomingValueForBlock(loop.latch);
    PHINode* own = PHINode::Create(phi.getType(), 2, phi.getName(), turns->takes->getIterator());
    own->addIncoming(begin, turns->before);
    auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(next);
    auto* step = sum && sum->getOpcode() == Instruction::Add && sum->getOperand(0) == &phi
                     ? sum->getOperand(1)
                     : nullptr;
    auto* made = llvm::dyn_cast_or_null<Instruction>(step);
    if (step && !known_.divergence.Varies(&phi) &&
        (!made || known_.tree.dominates(made->getParent(), loop.before))) {
      // The same for all: it goes on whoever takes part.
      llvm::IRBuilder<> count(turns->back);
      own->addIncoming(count.CreateAdd(own, step), turns->done);
      turns->values.push_back(own);
    } else {
      PHINode* keeps = PHINode::Create(phi.getType(), 3, "", turns->done->begin());
      keeps->addIncoming(own, turns->take);
      keeps->addIncoming(own, turns->out);
      keeps->addIncoming(next, loop.latch);
      own->addIncoming(keeps, turns->done);
      if (made_in_time(next)) turns->kept[next] = own;
    }
    phi.replaceAllUsesWith(own);
    phi.eraseFromParent();
  }
}

// Whether a value of the loop is used behind it.
bool InStep::IsBehind(const StepLoop& loop, const Turns& turns, const llvm::Use& use) {
  auto* user = llvm::cast<Instruction>(use.getUser());
  const BasicBlock* at = user->getParent();
  // Of the exit's phis the value comes over the edge that is no more.
  if (llvm::isa<PHINode>(user) && at == loop.exit) return true;
  if (auto* phi = llvm::dyn_cast<PHINode>(user)) at = phi->getIncomingBlock(use);
  const bool inside = loop.cycle->contains(at) || at == turns.turn || at == turns.take ||
                      at == turns.out || at == turns.done;
  // Ways to a fault still come from inside.
  return !inside && flow_.Returns(at);
}

// What is used behind the loop, as it was when the thread left it.
void InStep::KeepLast(const StepLoop& loop, Turns* turns) {
  for (BasicBlock* block : loop.cycle->blocks())
    for (Instruction& instruction : *block) turns->values.push_back(&instruction);
  auto is_behind = [&](const llvm::Use& use) { return IsBehind(loop, *turns, use); };
  for (Value* value : turns->values) {
    PHINode* last = nullptr;
    for (llvm::Use& use : llvm::make_early_inc_range(value->uses())) {
      if (!is_behind(use)) continue;
      if (PHINode* own = last ? nullptr : turns->kept.lookup(value);
          own && llvm::none_of(own->uses(), is_behind)) {
        // Nobody wants the turn's own: the thread leaves with the next.
        auto* keeps = llvm::cast<PHINode>(own->getIncomingValueForBlock(turns->done));
        keeps->setIncomingValueForBlock(turns->out, value);
        last = own;
      }
      if (!last) {
        last = PHINode::Create(value->getType(), 2, "last", turns->takes->getIterator());
        PHINode* keeps = PHINode::Create(value->getType(), 3, "", turns->done->begin());
        keeps->addIncoming(last, turns->take);
        keeps->addIncoming(value, turns->out);
        keeps->addIncoming(last, loop.latch);
        last->addIncoming(llvm::PoisonValue::get(value->getType()), turns->before);
        last->addIncoming(keeps, turns->done);
      }
      use.set(last);
    }
  }
}

// A turn for as long as any thread takes part. `condition`: the guard's.
void InStep::EndTurns(const StepLoop& loop, const Turns& turns, Value* condition) {
  llvm::IRBuilder<> b(turns.turn);
  bool polls = false;
  for (BasicBlock* block : loop.cycle->blocks()) {
    for (Instruction& instruction : llvm::make_early_inc_range(*block)) {
      if (MarkOf(instruction) != kMarkPoll) continue;
      instruction.eraseFromParent();
      polls = true;
    }
  }
  Value* wide = b.CreateZExt(turns.takes, b.getInt32Ty());
  if (polls) Mark(b, kMarkPoll, b.getVoidTy(), {});
  Value* any = Mark(b, kMarkReduce, b.getInt32Ty(),
                    {b.getInt32(static_cast<uint32_t>(BarrierReduce::kOr)), wide});
  BasicBlock* end = BasicBlock::Create(kernel_.getContext(), "all.out", &kernel_, loop.exit);
  b.CreateCondBr(b.CreateICmpNE(any, b.getInt32(0)), turns.take, end);
  b.SetInsertPoint(turns.take);
  b.CreateCondBr(turns.takes, loop.header, turns.done);
  b.SetInsertPoint(turns.out);
  b.CreateBr(turns.done);
  b.SetInsertPoint(end);
  for (PHINode& phi : loop.exit->phis()) phi.replaceIncomingBlockWith(loop.leaves, end);
  if (!loop.guard) {
    b.CreateBr(loop.exit);
    return;
  }
  const auto* branch = llvm::cast<llvm::BranchInst>(loop.guard->getTerminator());
  const bool enters = branch->getSuccessor(0) != turns.before;
  b.CreateCondBr(condition, enters ? loop.exit : loop.around, enters ? loop.around : loop.exit);
  for (PHINode& phi : loop.around->phis()) phi.replaceIncomingBlockWith(loop.guard, end);
}

void InStep::MakeMasked(const StepLoop& loop) {
  Turns turns;
  turns.before = loop.before;
  Value* condition = nullptr;
  if (loop.guard) {
    condition = llvm::cast<llvm::BranchInst>(loop.guard->getTerminator())->getCondition();
    Hoist(loop);
    turns.before = Gather(loop);
  }
  auto add = [&](const char* name) {
    return BasicBlock::Create(kernel_.getContext(), name, &kernel_, loop.header);
  };
  turns.turn = add("turn");
  turns.take = add("take.part");
  turns.out = add("step.out");
  turns.done = add("turn.done");
  turns.before->getTerminator()->replaceSuccessorWith(loop.header, turns.turn);
  loop.latch->getTerminator()->replaceSuccessorWith(loop.header, turns.done);
  loop.leaves->getTerminator()->replaceSuccessorWith(loop.exit, turns.out);
  PutPart(loop, &turns);
  KeepPhis(loop, &turns);
  KeepLast(loop, &turns);
  EndTurns(loop, turns, condition);
}

void InStep::Make(const StepLoop& loop) {
  if (LeavesApart(loop))
    MakeMasked(loop);
  else
    MeetEachTurn(loop);
}

void Innermost(llvm::ArrayRef<llvm::Cycle*> cycles, std::vector<llvm::Cycle*>* found) {
  for (llvm::Cycle* cycle : cycles) {
    const std::vector<llvm::Cycle*> children(cycle->children().begin(), cycle->children().end());
    if (children.empty()) found->push_back(cycle);
    Innermost(children, found);
  }
}

}  // namespace

bool RunLoopsInStep(llvm::Function& kernel) {
  llvm::DenseSet<const BasicBlock*> tried;
  bool changed = false;
  for (unsigned made = 0; made < kMaxLoops;) {
    Analyses known(kernel);
    InStep in_step(kernel, known);
    std::vector<llvm::Cycle*> cycles,
        top(known.cycles.info.toplevel_cycles().begin(), known.cycles.info.toplevel_cycles().end());
    Innermost(top, &cycles);
    StepLoop loop;
    bool found = false;
    for (llvm::Cycle* cycle : cycles) {
      if (!tried.insert(cycle->getHeader()).second) continue;
      found = in_step.Find(*cycle, &loop);
      if (found) break;
    }
    if (!found) break;
    in_step.Make(loop);
    changed = true;
    ++made;
  }
  return changed;
}

}  // namespace farcall::cpu_device::jit
