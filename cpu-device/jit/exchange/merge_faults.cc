// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/merge_faults.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <vector>

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::CallInst;

namespace {

// Fewer are left as they are: checks of addresses are taken out of small loops one by one.
constexpr size_t kMany = 100;

// The call of a block that does nothing else, come to from one place; null: another block.
CallInst* FaultOf(BasicBlock& block) {
  auto* call = llvm::dyn_cast<CallInst>(&block.front());
  if (!call || !llvm::isa<llvm::UnreachableInst>(block.getTerminator()) || block.size() != 2 ||
      !block.getSinglePredecessor())
    return nullptr;
  const llvm::Function* callee = call->getCalledFunction();
  return callee && callee->getName() == "fc_rt_window_fault" ? call : nullptr;
}

void Merge(llvm::ArrayRef<CallInst*> faults) {
  BasicBlock* first = faults.front()->getParent();
  BasicBlock* all = BasicBlock::Create(first->getContext(), "faults", first->getParent());
  llvm::IRBuilder<> b(all);
  std::vector<llvm::Value*> arguments;
  for (unsigned i = 0; i < faults.front()->arg_size(); ++i) {
    llvm::Type* type = faults.front()->getArgOperand(i)->getType();
    llvm::PHINode* phi = b.CreatePHI(type, static_cast<unsigned>(faults.size()));
    for (CallInst* fault : faults)
      phi->addIncoming(fault->getArgOperand(i), fault->getParent()->getSinglePredecessor());
    arguments.push_back(phi);
  }
  CallInst* call = b.CreateCall(faults.front()->getCalledFunction(), arguments);
  call->setAttributes(faults.front()->getAttributes());
  b.CreateUnreachable();
  for (CallInst* fault : faults) {
    BasicBlock* block = fault->getParent();
    block->getSinglePredecessor()->getTerminator()->replaceSuccessorWith(block, all);
    block->eraseFromParent();
  }
}

}  // namespace

llvm::PreservedAnalyses MergeFaultsPass::run(llvm::Function& function,
                                             llvm::FunctionAnalysisManager& manager) {
  const llvm::LoopInfo& loops = manager.getResult<llvm::LoopAnalysis>(function);
  llvm::MapVector<const llvm::Loop*, std::vector<CallInst*>> faults;
  for (BasicBlock& block : function) {
    CallInst* fault = FaultOf(block);
    if (fault) faults[loops.getLoopFor(block.getSinglePredecessor())].push_back(fault);
  }
  bool changed = false;
  for (const auto& [loop, calls] : faults) {
    if (calls.size() < kMany) continue;
    Merge(calls);
    changed = true;
  }
  return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

}  // namespace farcall::cpu_device::jit
