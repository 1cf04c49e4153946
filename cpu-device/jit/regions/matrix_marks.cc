// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/matrix_marks.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include "cpu-device/exec/block_matrix_ops.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::CallInst;
using llvm::Value;

namespace {

uint32_t NumberOf(const Value* value) {
  return static_cast<uint32_t>(llvm::cast<llvm::ConstantInt>(value)->getZExtValue());
}

class Resolver {
 public:
  Resolver(llvm::Function& kernel, const RegionValues& values) : kernel_(kernel), values_(values) {}

  // One call for all marks of a common block.
  void Resolve(llvm::ArrayRef<CallInst*> marks) {
    llvm::IRBuilder<> b(marks.front());
    std::vector<uint32_t> table;
    std::vector<Value*> scalars;
    for (CallInst* mark : marks) Add(mark, &table, &scalars);
    auto* words = llvm::ConstantDataArray::get(b.getContext(), llvm::ArrayRef(table));
    auto* steps =
        new llvm::GlobalVariable(*kernel_.getParent(), words->getType(), /*isConstant=*/true,
                                 llvm::GlobalValue::PrivateLinkage, words, "matrix.steps");
    Value* left = values_.left();
    Value* none = llvm::ConstantPointerNull::get(b.getPtrTy());
    Value* array = scalars.empty() ? none : Scalars(scalars.size());
    for (size_t i = 0; i < scalars.size(); ++i)
      b.CreateStore(scalars[i], b.CreateConstInBoundsGEP1_64(b.getInt32Ty(), array, i));
    const llvm::FunctionCallee run = kernel_.getParent()->getOrInsertFunction(
        "fc_rt_matrix_steps", b.getVoidTy(), b.getPtrTy(), b.getPtrTy(), b.getPtrTy(), b.getPtrTy(),
        b.getPtrTy(), b.getInt32Ty());
    b.CreateCall(run, {kernel_.getArg(0), values_.frame(), left ? left : none, array, steps,
                       b.getInt32(static_cast<uint32_t>(marks.size()))})
        ->setDoesNotThrow();
    // What was read of their results is read from memory by now.
    for (CallInst* mark : llvm::reverse(marks)) {
      for (llvm::User* word : llvm::make_early_inc_range(mark->users()))
        llvm::cast<llvm::Instruction>(word)->eraseFromParent();
      mark->eraseFromParent();
    }
  }

 private:
  void Add(CallInst* mark, std::vector<uint32_t>* table, std::vector<Value*>* scalars) {
    MatrixStep step;
    step.result = static_cast<uint32_t>(values_.ResultOffset(mark));
    unsigned first = 0, end = 1;
    if (IsProduct(*mark)) {
      first = 2;
      end = mark->arg_size();
      for (unsigned i = 0; i < 2; ++i) step.how[i] = NumberOf(mark->getArgOperand(i));
    } else {
      step.loads = static_cast<uint32_t>(mark->getType()->getArrayNumElements());
      step.how[0] = NumberOf(mark->getArgOperand(2));
      step.how[1] = NumberOf(mark->getArgOperand(1));
    }
    for (unsigned i = first; i < end; ++i) {
      Value* given = mark->getArgOperand(i);
      MatrixWord& word = step.words[i - first];
      if (auto place = values_.PlaceOf(mark, i)) {
        word = {static_cast<uint32_t>(place->offset), static_cast<uint32_t>(place->step)};
      } else if (llvm::isa<llvm::UndefValue>(given)) {
        word = {0, MatrixWord::kSame};
      } else if (llvm::isa<llvm::ConstantInt>(given)) {
        word = {NumberOf(given), MatrixWord::kSame};
      } else {
        word = {static_cast<uint32_t>(scalars->size()), MatrixWord::kScalar};
        scalars->push_back(given);
      }
    }
    uint32_t words[sizeof(step) / 4];
    memcpy(words, &step, sizeof(step));
    table->insert(table->end(), std::begin(words), std::end(words));
  }

  Value* Scalars(size_t count) {
    llvm::IRBuilder<> b(&kernel_.getEntryBlock(), kernel_.getEntryBlock().begin());
    return b.CreateAlloca(llvm::ArrayType::get(b.getInt32Ty(), count));
  }

  llvm::Function& kernel_;
  const RegionValues& values_;
};

}  // namespace

void ResolveMatrixMarks(llvm::Function& kernel, const RegionValues& values) {
  std::vector<std::vector<CallInst*>> runs;
  for (llvm::BasicBlock& block : kernel) {
    if (!IsMatrixMark(block.front())) continue;
    runs.emplace_back();
    for (llvm::Instruction& instruction : block)
      if (IsMatrixMark(instruction)) runs.back().push_back(llvm::cast<CallInst>(&instruction));
  }
  Resolver resolver(kernel, values);
  for (const auto& run : runs) resolver.Resolve(run);
}

}  // namespace farcall::cpu_device::jit
