// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/guarded_turns.h"

#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>

namespace farcall::cpu_device::jit {
namespace {

using llvm::BasicBlock;
using llvm::Loop;
using llvm::Value;

constexpr size_t kMaxConditions = 8;

bool OnlyComputes(const BasicBlock& block) {
  for (const llvm::Instruction& instruction : block)
    if (instruction.mayHaveSideEffects()) return false;
  return true;
}

}  // namespace

std::optional<GuardedTurns> GuardedTurns::Of(const Loop& loop, llvm::ScalarEvolution& evolution) {
  BasicBlock *header = loop.getHeader(), *latch = loop.getLoopLatch();
  if (!latch || latch == header || loop.getExitingBlock() != latch) return std::nullopt;
  auto* branch = llvm::dyn_cast<llvm::BranchInst>(header->getTerminator());
  auto* turn = llvm::dyn_cast<llvm::BranchInst>(latch->getTerminator());
  if (!branch || !branch->isConditional() || !turn || !turn->isConditional()) return std::nullopt;
  if (branch->getSuccessor(0) == branch->getSuccessor(1)) return std::nullopt;
  GuardedTurns guarded;
  guarded.branch_ = branch;
  guarded.inside_ = branch->getSuccessor(0) == latch ? 1 : 0;
  if (branch->getSuccessor(1 - guarded.inside_) != latch) return std::nullopt;
  // Nothing is carried over or out, so that it does not matter which turn is the last.
  if (latch->phis().begin() != latch->phis().end()) return std::nullopt;
  if (!OnlyComputes(*header) || !OnlyComputes(*latch)) return std::nullopt;
  BasicBlock* exit = loop.getExitBlock();
  if (!exit || exit->phis().begin() != exit->phis().end()) return std::nullopt;
  if (!guarded.Collect(branch->getCondition(), guarded.inside_ == 0, loop, evolution))
    return std::nullopt;
  if (guarded.comparisons_.empty()) return std::nullopt;
  return guarded;
}

// All of what has to hold for `condition` to be `wanted`.
bool GuardedTurns::Collect(Value* condition, bool wanted, const Loop& loop,
                           llvm::ScalarEvolution& evolution) {
  using namespace llvm::PatternMatch;
  if (comparisons_.size() + fixed_.size() >= kMaxConditions) return false;
  if (loop.isLoopInvariant(condition)) {
    fixed_.emplace_back(condition, wanted);
    return true;
  }
  Value *left = nullptr, *right = nullptr;
  if (match(condition, m_Not(m_Value(left)))) return Collect(left, !wanted, loop, evolution);
  if (wanted ? match(condition, m_LogicalAnd(m_Value(left), m_Value(right)))
             : match(condition, m_LogicalOr(m_Value(left), m_Value(right))))
    return Collect(left, wanted, loop, evolution) && Collect(right, wanted, loop, evolution);
  auto* compare = llvm::dyn_cast<llvm::ICmpInst>(condition);
  return compare && Add(*compare, wanted, loop, evolution);
}

bool GuardedTurns::Add(llvm::ICmpInst& compare, bool wanted, const Loop& loop,
                       llvm::ScalarEvolution& evolution) {
  llvm::CmpInst::Predicate predicate =
      wanted ? compare.getPredicate() : compare.getInversePredicate();
  Value *grows = compare.getOperand(0), *stays = compare.getOperand(1);
  if (!grows->getType()->isIntegerTy() || grows->getType()->getIntegerBitWidth() > 64) return false;
  if (evolution.isLoopInvariant(evolution.getSCEV(grows), &loop)) {
    std::swap(grows, stays);
    predicate = llvm::CmpInst::getSwappedPredicate(predicate);
  }
  const auto* number = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(grows));
  const llvm::SCEV* bound = evolution.getSCEV(stays);
  if (!number || number->getLoop() != &loop || !number->isAffine() ||
      !number->getStepRecurrence(evolution)->isOne() || !evolution.isLoopInvariant(bound, &loop))
    return false;
  switch (predicate) {
    case llvm::CmpInst::ICMP_ULT:
    case llvm::CmpInst::ICMP_ULE:
    case llvm::CmpInst::ICMP_SLT:
    case llvm::CmpInst::ICMP_SLE:
      break;
    default:
      return false;
  }
  comparisons_.push_back({number->getStart(), bound, llvm::CmpInst::isSigned(predicate),
                          llvm::CmpInst::isTrueWhenEqual(predicate)});
  return true;
}

bool GuardedTurns::CanExpand(const llvm::SCEVExpander& expander, llvm::Instruction* at) const {
  for (const Comparison& comparison : comparisons_)
    if (!expander.isSafeToExpandAt(comparison.start, at) ||
        !expander.isSafeToExpandAt(comparison.bound, at))
      return false;
  return true;
}

Value* GuardedTurns::Count(llvm::IRBuilder<>& b, llvm::SCEVExpander& expander, Value* last,
                           Value** good) const {
  llvm::Instruction* at = &*b.GetInsertPoint();
  llvm::Type* wide = b.getInt64Ty();
  Value* count = b.CreateAdd(last, b.getInt64(1));
  for (const Comparison& comparison : comparisons_) {
    llvm::Type* type = comparison.start->getType();
    const unsigned bits = type->getIntegerBitWidth();
    Value* start = expander.expandCodeFor(comparison.start, type, at);
    Value* bound = expander.expandCodeFor(comparison.bound, type, at);
    const llvm::APInt most = comparison.is_signed ? llvm::APInt::getSignedMaxValue(bits)
                                                  : llvm::APInt::getMaxValue(bits);
    Value* room = b.CreateZExt(b.CreateSub(b.getInt(most), start), wide);
    *good = b.CreateAnd(*good, b.CreateICmpUGE(room, last));
    Value* begins = b.CreateICmp(
        comparison.is_signed ? llvm::CmpInst::ICMP_SLE : llvm::CmpInst::ICMP_ULE, start, bound);
    Value* turns = b.CreateZExt(b.CreateSub(bound, start), wide);
    if (comparison.or_equal)
      turns = b.CreateBinaryIntrinsic(llvm::Intrinsic::uadd_sat, turns, b.getInt64(1));
    turns = b.CreateSelect(begins, turns, b.getInt64(0));
    count = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, turns);
  }
  for (const auto& [condition, wanted] : fixed_) {
    Value* holds = b.CreateICmpEQ(b.CreateFreeze(condition), b.getInt1(wanted));
    count = b.CreateSelect(holds, count, b.getInt64(0));
  }
  return count;
}

void GuardedTurns::Shorten(const Loop& loop, Value* count) const {
  branch_->setCondition(llvm::ConstantInt::getBool(branch_->getContext(), inside_ == 0));
  BasicBlock* latch = loop.getLoopLatch();
  auto* turn = llvm::cast<llvm::BranchInst>(latch->getTerminator());
  Value* next = CounterOf(loop)->getIncomingValueForBlock(latch);
  llvm::IRBuilder<> b(turn);
  const bool leaves_if_true = !loop.contains(turn->getSuccessor(0));
  turn->setCondition(
      b.CreateICmp(leaves_if_true ? llvm::CmpInst::ICMP_EQ : llvm::CmpInst::ICMP_NE, next, count));
}

llvm::PHINode* CounterOf(const Loop& loop) {
  llvm::PHINode* counter = loop.getCanonicalInductionVariable();
  if (counter && counter->getType()->isIntegerTy(64)) return counter;
  llvm::IRBuilder<> b(loop.getHeader(), loop.getHeader()->begin());
  counter = b.CreatePHI(b.getInt64Ty(), 2, "turn");
  b.SetInsertPoint(loop.getLoopLatch()->getTerminator());
  Value* next = b.CreateAdd(counter, b.getInt64(1), "", true, true);
  counter->addIncoming(b.getInt64(0), loop.getLoopPreheader());
  counter->addIncoming(next, loop.getLoopLatch());
  return counter;
}

}  // namespace farcall::cpu_device::jit
