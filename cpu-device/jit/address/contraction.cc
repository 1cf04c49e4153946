// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/address/contraction.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Local.h>

#include <vector>

namespace farcall::cpu_device::jit {
namespace {

using llvm::BinaryOperator;
using llvm::Value;

// The product that may go into `sum`, used by nothing else; null if that operand is none.
BinaryOperator* Product(const BinaryOperator& sum, unsigned operand) {
  auto* product = llvm::dyn_cast<BinaryOperator>(sum.getOperand(operand));
  const bool fits = product && product->getOpcode() == llvm::Instruction::FMul &&
                    product->hasAllowContract() && product->hasOneUse() &&
                    product->getParent() == sum.getParent();
  return fits ? product : nullptr;
}

// An fadd or an fsub.
void Contract(BinaryOperator* sum) {
  const bool subtracts = sum->getOpcode() == llvm::Instruction::FSub;
  const unsigned at = Product(*sum, 0) ? 0 : 1;
  BinaryOperator* product = Product(*sum, at);
  if (!product) return;
  llvm::IRBuilder<> b(sum);
  Value* left = product->getOperand(0);
  Value* addend = sum->getOperand(1 - at);
  if (subtracts && at == 0) addend = b.CreateFNeg(addend);
  if (subtracts && at == 1) left = b.CreateFNeg(left);
  sum->replaceAllUsesWith(b.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()},
                                            {left, product->getOperand(1), addend}));
  sum->eraseFromParent();
  product->eraseFromParent();
}

}  // namespace

llvm::PreservedAnalyses ContractionPass::run(llvm::Function& function,
                                             llvm::FunctionAnalysisManager&) {
  // Casts between registers' types that came to nothing would count as uses.
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::reverse(block)))
      if (llvm::isInstructionTriviallyDead(&instruction)) instruction.eraseFromParent();
  }
  std::vector<BinaryOperator*> sums;
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& instruction : block) {
      auto* operation = llvm::dyn_cast<BinaryOperator>(&instruction);
      const bool marked =
          operation && llvm::isa<llvm::FPMathOperator>(operation) && operation->hasAllowContract();
      if (marked && operation->getOpcode() != llvm::Instruction::FMul) sums.push_back(operation);
    }
  }
  for (BinaryOperator* sum : sums) Contract(sum);
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& instruction : block)
      if (llvm::isa<BinaryOperator>(instruction) && llvm::isa<llvm::FPMathOperator>(instruction))
        instruction.setHasAllowContract(false);
  }
  llvm::PreservedAnalyses kept;
  kept.preserveSet<llvm::CFGAnalyses>();
  return kept;
}

}  // namespace farcall::cpu_device::jit
