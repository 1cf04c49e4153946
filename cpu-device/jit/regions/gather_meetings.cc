// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/gather_meetings.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/Local.h>

#include <vector>

#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::CallInst;
using llvm::Instruction;
using llvm::Value;

namespace {

// Of memory that other threads see too.
struct Touches {
  bool reads = false, writes = false;

  bool any() const { return reads || writes; }
  Touches& operator|=(const Touches& other) {
    reads |= other.reads;
    writes |= other.writes;
    return *this;
  }
};
constexpr Touches kAll = {true, true};

bool IsOwn(const Value* pointer) {
  return llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(pointer));
}

Touches TouchesOf(const Instruction& instruction) {
  if (!instruction.mayReadOrWriteMemory() || MarkOf(instruction) == kMarkPoll) return {};
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
    if (!load->isSimple()) return kAll;
    const bool fixed = load->hasMetadata(llvm::LLVMContext::MD_invariant_load);
    return {!fixed && !IsOwn(load->getPointerOperand()), false};
  }
  if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
    if (!store->isSimple()) return kAll;
    return {false, !IsOwn(store->getPointerOperand())};
  }
  if (instruction.isLifetimeStartOrEnd() || llvm::isa<llvm::AssumeInst>(instruction)) return {};
  return {true, instruction.mayWriteToMemory()};
}

// Looks at an address that is not plainly one of the device's: a fault, or nothing happens.
bool IsCheck(const BasicBlock* block) {
  const auto* call = llvm::dyn_cast<CallInst>(&block->front());
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  return callee && callee->getName() == "fc_rt_check" && block->size() == 2 &&
         block->getSinglePredecessor() && block->getSingleSuccessor();
}

// Where all threads that get on go from `block`: what ends the grid is no way. Null: the ways part,
// or others join there.
BasicBlock* NextInLine(BasicBlock* block) {
  BasicBlock* next = nullptr;
  for (BasicBlock* way : llvm::successors(block)) {
    if (llvm::isa<llvm::UnreachableInst>(way->getTerminator())) continue;
    if (IsCheck(way)) way = way->getSingleSuccessor();
    if (next && next != way) return nullptr;
    next = way;
  }
  if (!next || llvm::isa<llvm::PHINode>(next->front())) return nullptr;
  for (const BasicBlock* from : llvm::predecessors(next))
    if (from != block && !(IsCheck(from) && from->getSinglePredecessor() == block)) return nullptr;
  return next;
}

// Blocks that threads go through one after the other.
using Line = std::vector<BasicBlock*>;

std::vector<Line> LinesOf(llvm::Function& kernel) {
  llvm::SmallPtrSet<BasicBlock*, 32> inner;
  for (BasicBlock& block : kernel)
    if (BasicBlock* next = NextInLine(&block)) inner.insert(next);
  std::vector<Line> lines;
  for (BasicBlock& block : kernel) {
    if (inner.contains(&block)) continue;
    Line& line = lines.emplace_back();
    for (BasicBlock* at = &block; at; at = NextInLine(at)) line.push_back(at);
  }
  return lines;
}

// A meeting orders what is written before it and read behind it, and the other way round.
void DropMeetings(const Line& line) {
  struct Stretch {
    Instruction* meeting;  // at its begin; null at the line's
    Touches touches;
  };
  std::vector<Stretch> stretches = {{nullptr, kAll}};
  for (BasicBlock* block : line) {
    for (Instruction& instruction : *block)
      if (!IsMatrixMark(instruction) && IsMeeting(instruction))
        stretches.push_back({&instruction, {}});
      else
        stretches.back().touches |= TouchesOf(instruction);
  }
  stretches.back().touches = kAll;
  Touches before = kAll;
  for (size_t i = 1; i < stretches.size(); ++i) {
    const auto& [meeting, behind] = stretches[i];
    const bool needed = (before.writes && behind.any()) || (behind.writes && before.any());
    if (MarkOf(*meeting) == kMarkMeet && !needed) {
      meeting->eraseFromParent();
      before |= behind;
    } else {
      before = behind;
    }
  }
}

// Marks of matrices go down to where what they give is wanted, or where memory might change that
// they would have read, or that lanes in lockstep would have exchanged by then.
class Waiting {
 public:
  void Run(const Line& line) {
    for (BasicBlock* block : line) {
      for (Instruction& instruction : llvm::make_early_inc_range(*block))
        if (IsMatrixMark(instruction))
          Add(llvm::cast<CallInst>(&instruction));
        else if (!MatrixMarkOf(instruction))
          Pass(&instruction);
    }
    Flush(line.back()->getTerminator());
  }

 private:
  void Add(CallInst* mark) {
    marks_.push_back(mark);
    touched_ |= TouchesOf(*mark);
    Instruction* behind = mark;
    for (llvm::User* user : mark->users()) {
      auto* word = llvm::cast<Instruction>(user);
      word->moveAfter(behind);
      behind = word;
      words_.insert(word);
    }
  }

  void Pass(Instruction* instruction) {
    const Touches touches = TouchesOf(*instruction);
    const bool wants = llvm::any_of(instruction->operands(),
                                    [&](const llvm::Use& use) { return words_.contains(use); });
    const bool clash = touches.writes || (touches.any() && touched_.writes);
    if (wants || clash || IsMeeting(*instruction)) Flush(instruction);
    if (IsMeeting(*instruction))
      touched_ = {};
    else
      touched_ |= touches;
  }

  void Flush(Instruction* before) {
    if (marks_.empty()) return;
    for (CallInst* mark : marks_) {
      const std::vector<llvm::User*> words(mark->user_begin(), mark->user_end());
      mark->moveBefore(before);
      for (llvm::User* word : words) llvm::cast<Instruction>(word)->moveBefore(before);
    }
    marks_.clear();
    words_.clear();
    touched_ = {};
  }

  std::vector<CallInst*> marks_;
  llvm::SmallPtrSet<const Value*, 32> words_;
  Touches touched_ = kAll;  // since the last meeting
};

// Of words that were put together to 64 bits, which goes into the next product in words again,
// takes the words.
void TakeWords(llvm::Function& kernel) {
  using namespace llvm::PatternMatch;
  llvm::SmallVector<llvm::WeakTrackingVH, 32> halves;
  for (BasicBlock& block : kernel) {
    for (Instruction& instruction : block) {
      if (!IsProduct(instruction)) continue;
      for (llvm::Use& use : llvm::cast<CallInst>(instruction).args()) {
        Value *low = nullptr, *high = nullptr;
        auto whole = m_c_Or(m_ZExt(m_Value(low)), m_Shl(m_ZExt(m_Value(high)), m_SpecificInt(32)));
        Value* word = match(use.get(), m_Trunc(whole))                              ? low
                      : match(use.get(), m_Trunc(m_LShr(whole, m_SpecificInt(32)))) ? high
                                                                                    : nullptr;
        if (!word || word->getType() != use->getType()) continue;
        halves.push_back(use.get());
        use.set(word);
      }
    }
  }
  llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(halves);
}

}  // namespace

void GatherMeetings(llvm::Function& kernel) {
  TakeWords(kernel);
  for (const Line& line : LinesOf(kernel)) {
    DropMeetings(line);
    Waiting().Run(line);
  }
}

}  // namespace farcall::cpu_device::jit
