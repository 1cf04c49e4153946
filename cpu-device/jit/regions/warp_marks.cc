// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/warp_marks.h"

#include <llvm/IR/Module.h>

#include "cpu-device/exec/context.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::CallInst;
using llvm::Value;

namespace {

std::vector<CallInst*> CallsOf(llvm::Function& kernel, const char* name) {
  std::vector<CallInst*> calls;
  if (const llvm::Function* mark = kernel.getParent()->getFunction(name))
    for (const llvm::User* user : mark->users())
      calls.push_back(const_cast<CallInst*>(llvm::cast<CallInst>(user)));
  return calls;
}

// Writes a BlockWarpOperation of the kernel's stack and has it done.
class Resolver {
 public:
  Resolver(llvm::Function& kernel, const RegionValues& values)
      : kernel_(kernel), values_(values), layout_(kernel.getDataLayout()) {
    llvm::IRBuilder<> b(&kernel.getEntryBlock(), kernel.getEntryBlock().begin());
    operation_ = b.CreateAlloca(llvm::ArrayType::get(b.getInt64Ty(), kOperationWords));
    for (llvm::AllocaInst*& scalar : scalars_) scalar = b.CreateAlloca(b.getInt64Ty());
  }

  void Resolve(CallInst* mark) {
    llvm::IRBuilder<> b(mark);
    const uint64_t bytes = layout_.getTypeAllocSize(mark->getType());
    Set(b, offsetof(BlockWarpOperation, wait), mark->getArgOperand(0));
    Set(b, offsetof(BlockWarpOperation, result_bytes), b.getInt32(static_cast<uint32_t>(bytes)));
    Set(b, offsetof(BlockWarpOperation, result), values_.ResultsOf(b, mark));
    Set(b, offsetof(BlockWarpOperation, left), Left(b));
    for (unsigned i = 0; i < kOperands; ++i) SetOperand(b, mark, i);
    Call(b, "fc_rt_warp_operation", b.getVoidTy(), {kernel_.getArg(0), operation_});
    mark->eraseFromParent();
  }

  void Reduce(CallInst* mark) {
    llvm::IRBuilder<> b(mark);
    Value* array = values_.ArrayOf(b, mark, 1);
    Value* step = b.getInt32(array ? 1 : 0);
    if (!array) {
      b.CreateStore(b.CreateZExt(mark->getArgOperand(1), b.getInt64Ty()), scalars_[0]);
      array = scalars_[0];
    } else if (layout_.getTypeAllocSize(values_.ElementOf(mark, 1)) != 1) {
      step = b.getInt32(4);
    }
    mark->replaceAllUsesWith(
        Call(b, "fc_rt_reduce_predicates", b.getInt32Ty(),
             {kernel_.getArg(0), mark->getArgOperand(0), array, step, Left(b)}));
    mark->eraseFromParent();
  }

 private:
  static constexpr unsigned kOperands = 5;
  static constexpr uint64_t kOperationWords = (sizeof(BlockWarpOperation) + 7) / 8;

  void Set(llvm::IRBuilder<>& b, size_t offset, Value* value) {
    b.CreateStore(value, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), operation_, offset));
  }
  Value* Left(llvm::IRBuilder<>& b) const {
    Value* left = values_.left();
    return left ? left : llvm::ConstantPointerNull::get(b.getPtrTy());
  }
  void SetOperand(llvm::IRBuilder<>& b, CallInst* mark, unsigned i) {
    const size_t at = offsetof(BlockWarpOperation, operands) + i * sizeof(WarpOperand);
    Value* array = values_.ArrayOf(b, mark, i + 1);
    llvm::Type* type =
        array ? values_.ElementOf(mark, i + 1) : mark->getArgOperand(i + 1)->getType();
    const uint64_t bytes = layout_.getTypeAllocSize(type);
    if (!array) b.CreateStore(mark->getArgOperand(i + 1), scalars_[i]);
    Set(b, at + offsetof(WarpOperand, data), array ? array : scalars_[i]);
    Set(b, at + offsetof(WarpOperand, bytes), b.getInt32(static_cast<uint32_t>(bytes)));
    const uint64_t step = array ? values_.PlaceOf(mark, i + 1)->step : 0;
    Set(b, at + offsetof(WarpOperand, step), b.getInt32(static_cast<uint32_t>(step)));
  }
  Value* Call(llvm::IRBuilder<>& b, const char* name, llvm::Type* result,
              llvm::ArrayRef<Value*> arguments) {
    llvm::SmallVector<llvm::Type*, 4> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    CallInst* call = b.CreateCall(kernel_.getParent()->getOrInsertFunction(
                                      name, llvm::FunctionType::get(result, types, false)),
                                  arguments);
    call->setDoesNotThrow();
    return call;
  }

  llvm::Function& kernel_;
  const RegionValues& values_;
  const llvm::DataLayout& layout_;
  llvm::AllocaInst* operation_;
  llvm::AllocaInst* scalars_[kOperands];
};

}  // namespace

void NarrowWarpMarks(llvm::Function& kernel) {
  for (CallInst* mark : CallsOf(kernel, kMarkWarp)) {
    const bool narrow = llvm::all_of(mark->users(), [](const llvm::User* user) {
      return llvm::isa<llvm::TruncInst>(user) && user->getType()->isIntegerTy(32);
    });
    if (!narrow) continue;
    llvm::IRBuilder<> b(mark);
    const llvm::FunctionCallee callee = kernel.getParent()->getOrInsertFunction(
        kMarkNarrowWarp,
        llvm::FunctionType::get(b.getInt32Ty(), mark->getFunctionType()->params(), false));
    llvm::SmallVector<Value*, 6> arguments(mark->args());
    CallInst* value = b.CreateCall(callee, arguments);
    value->setAttributes(mark->getAttributes());
    for (llvm::User* user : llvm::make_early_inc_range(mark->users())) {
      auto* trunc = llvm::cast<llvm::Instruction>(user);
      trunc->replaceAllUsesWith(value);
      trunc->eraseFromParent();
    }
    mark->eraseFromParent();
  }
}

void ResolveWarpMarks(llvm::Function& kernel, const RegionValues& values) {
  Resolver resolver(kernel, values);
  for (const char* name : {kMarkWarp, kMarkNarrowWarp})
    for (CallInst* mark : CallsOf(kernel, name)) resolver.Resolve(mark);
  for (CallInst* mark : CallsOf(kernel, kMarkReduce)) resolver.Reduce(mark);
}

}  // namespace farcall::cpu_device::jit
