// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/region_plan.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;

namespace {

bool HasSeveral(const BasicBlock* block) {
  return block->getTerminator()->getNumSuccessors() > 1;
}

}  // namespace

RegionPlan::RegionPlan(llvm::Function& kernel, const Divergence& divergence,
                       const llvm::CycleInfo& cycles)
    : kernel_(kernel), divergence_(divergence), cycles_(cycles), flow_(kernel) {}

bool RegionPlan::Make() {
  if (!FindCommonBranches()) return false;
  AddHeaders();
  Cut();
  SplitEdges();
  return Fill();
}

// A branch that decides over a meeting has to be one that all threads take alike.
bool RegionPlan::FindCommonBranches() {
  llvm::DenseSet<BasicBlock*> meet, polls, apart;
  std::vector<llvm::Instruction*> poll_marks;
  for (BasicBlock& block : kernel_) {
    for (llvm::Instruction& instruction : block) {
      if (IsMeeting(instruction)) {
        meet.insert(&block);
        meetings_.push_back(&instruction);
      } else if (MarkOf(instruction) == kMarkPoll) {
        poll_marks.push_back(&instruction);
      }
    }
  }
  if (meet.empty()) return false;
  for (BasicBlock& block : kernel_) {
    if (!divergence_.Branches(&block)) continue;
    for (BasicBlock* decided : flow_.Decided(&block)) {
      if (meet.contains(decided)) return false;
      apart.insert(decided);
    }
  }
  // In a loop that meets the block looks once for all threads; elsewhere each thread does.
  for (llvm::Instruction* poll : poll_marks) {
    const llvm::Cycle* cycle = cycles_.getCycle(poll->getParent());
    const bool common = cycle && !apart.contains(poll->getParent()) &&
                        llvm::any_of(meet, [&](BasicBlock* at) { return cycle->contains(at); });
    if (common) meetings_.push_back(poll);
    if (common) polls.insert(poll->getParent());
  }
  meet.insert(polls.begin(), polls.end());
  for (BasicBlock& block : kernel_) {
    const std::vector<BasicBlock*> decided = flow_.Decided(&block);
    if (llvm::none_of(decided, [&](BasicBlock* at) { return meet.contains(at); })) continue;
    if (divergence_.Branches(&block)) return false;
    branches_.push_back(block.getTerminator());
    if (BasicBlock* end = flow_.Meets(&block)) entries_.insert(end);
  }
  return true;
}

void RegionPlan::AddHeaders() {
  for (llvm::Instruction* meeting : meetings_)
    for (const llvm::Cycle* cycle = cycles_.getCycle(meeting->getParent()); cycle;
         cycle = cycle->getParentCycle())
      entries_.insert(cycle->getHeader());
}

// Each meeting and each common branch gets a block of its own, marks of matrices that follow one
// another one for all.
void RegionPlan::Cut() {
  BasicBlock& first = kernel_.getEntryBlock();
  llvm::Instruction* code = &*first.getFirstNonPHIOrDbgOrAlloca();
  entries_.insert(first.splitBasicBlock(code, "start"));
  common_.insert(&first);
  for (BasicBlock& block : kernel_) {
    if (!llvm::isa<llvm::ReturnInst>(block.getTerminator())) continue;
    common_.insert(block.splitBasicBlock(block.getTerminator(), "return"));
    break;
  }
  for (llvm::Instruction* meeting : meetings_) {
    if (common_.contains(meeting->getParent())) continue;
    BasicBlock* at = meeting->getParent()->splitBasicBlock(meeting, "meet");
    llvm::Instruction* next = meeting->getNextNode();
    if (IsMatrixMark(*meeting))
      while (IsMatrixMark(*next) || MatrixMarkOf(*next)) next = next->getNextNode();
    entries_.insert(at->splitBasicBlock(next, "go.on"));
    common_.insert(at);
  }
  for (llvm::Instruction* branch : branches_)
    common_.insert(branch->getParent()->splitBasicBlock(branch, "choose"));
}

void RegionPlan::SplitEdges() {
  for (llvm::Instruction* branch : branches_) {
    for (unsigned i = 0; i < branch->getNumSuccessors(); ++i) {
      BasicBlock* next = branch->getSuccessor(i);
      // What a phi gets on this way is said in a region.
      if (llvm::isa<llvm::PHINode>(next->front())) {
        BasicBlock* way = BasicBlock::Create(kernel_.getContext(), "way", &kernel_, next);
        llvm::BranchInst::Create(next, way);
        branch->setSuccessor(i, way);
        for (llvm::PHINode& phi : next->phis()) {
          phi.setIncomingBlock(static_cast<unsigned>(phi.getBasicBlockIndex(branch->getParent())),
                               way);
        }
        entries_.insert(next);
        next = way;
      }
      if (!common_.contains(next)) entries_.insert(next);
    }
  }
}

// False: `*shared` is in another region too.
bool RegionPlan::Grow(int region, BasicBlock* entry, BasicBlock** shared) {
  std::vector<BasicBlock*> work = {entry};
  while (!work.empty()) {
    BasicBlock* block = work.back();
    work.pop_back();
    auto [owner, fresh] = owner_.try_emplace(block, region);
    if (!fresh) {
      if (owner->second == region) continue;
      *shared = block;
      return false;
    }
    for (BasicBlock* next : llvm::successors(block))
      if (!common_.contains(next) && !entries_.contains(next)) work.push_back(next);
  }
  return true;
}

bool RegionPlan::Fill() {
  for (bool again = true; again;) {
    again = false;
    owner_.clear();
    for (size_t i = 0; i < entries_.size() && !again; ++i) {
      BasicBlock* shared = nullptr;
      if (Grow(static_cast<int>(i), entries_[i], &shared)) continue;
      // Ways that all threads go together meet here.
      entries_.insert(shared);
      again = true;
    }
  }
  regions_.resize(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) regions_[i].entry = entries_[i];
  for (BasicBlock& block : kernel_) {
    const int region = RegionOf(&block);
    if (region >= 0) regions_[static_cast<size_t>(region)].blocks.push_back(&block);
  }
  return llvm::all_of(regions_, [&](Region& region) { return Close(&region); });
}

// A region with several ways out is none: its threads need not stay together.
bool RegionPlan::Close(Region* region) {
  llvm::SetVector<BasicBlock*> from;
  const int own = RegionOf(region->entry);
  for (BasicBlock* block : region->blocks) {
    for (BasicBlock* next : llvm::successors(block)) {
      if (next != region->entry && RegionOf(next) == own) continue;
      if (region->target && region->target != next) return false;
      region->target = next;
      from.insert(block);
    }
  }
  if (!region->target || region->target == region->entry) return false;
  region->last = from.front();
  if (from.size() > 1 || HasSeveral(region->last)) {
    region->last = llvm::SplitBlockPredecessors(region->target, from.getArrayRef(), ".leave");
    if (!region->last) return false;
    owner_[region->last] = own;
    region->blocks.push_back(region->last);
  }
  return true;
}

}  // namespace farcall::cpu_device::jit
