// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/address/first_values.h"

#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>

namespace farcall::cpu_device::jit {

namespace {

// The store of a zero that is dead; null if there is none.
llvm::StoreInst* DeadZero(const llvm::AllocaInst& memory, const llvm::DominatorTree& tree) {
  llvm::SmallVector<llvm::StoreInst*, 2> stores;
  llvm::SmallVector<const llvm::LoadInst*, 8> loads;
  for (const llvm::User* user : memory.users()) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(user)) {
      loads.push_back(load);
      continue;
    }
    auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
    const bool whole = store && store->getPointerOperand() == &memory &&
                       store->getValueOperand()->getType() == memory.getAllocatedType();
    if (!whole || stores.size() == 2) return nullptr;
    stores.push_back(const_cast<llvm::StoreInst*>(store));
  }
  if (stores.size() != 2) return nullptr;
  if (!tree.dominates(stores[0], stores[1])) std::swap(stores[0], stores[1]);
  const auto* zero = llvm::dyn_cast<llvm::Constant>(stores[0]->getValueOperand());
  if (!zero || !zero->isNullValue() || !tree.dominates(stores[0], stores[1])) return nullptr;
  const bool covered = llvm::all_of(
      loads, [&](const llvm::LoadInst* load) { return tree.dominates(stores[1], load); });
  return covered ? stores[0] : nullptr;
}

}  // namespace

llvm::PreservedAnalyses FirstValuesPass::run(llvm::Function& function,
                                             llvm::FunctionAnalysisManager& analyses) {
  const auto& tree = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  llvm::SmallVector<llvm::StoreInst*, 64> dead;
  for (const llvm::BasicBlock& block : function) {
    for (const llvm::Instruction& instruction : block) {
      const auto* memory = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
      llvm::StoreInst* zero = memory ? DeadZero(*memory, tree) : nullptr;
      if (zero) dead.push_back(zero);
    }
  }
  for (llvm::StoreInst* zero : dead) zero->eraseFromParent();
  llvm::PreservedAnalyses kept;
  kept.preserveSet<llvm::CFGAnalyses>();
  return kept;
}

}  // namespace farcall::cpu_device::jit
