// SPDX-License-Identifier: Apache-2.0
// Turns one PTX kernel into LLVM IR. One instance per kernel; the emit_*.cc files each hold a
// family of instructions.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpu-device/exec/compiler.h"
#include "cpu-device/exec/context.h"
#include "cpu-device/jit/exchange/warp_exchange.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device {
struct MatrixLoad;
}

namespace farcall::cpu_device::jit {

// One activation of a PTX function being emitted: the kernel, an inlined callee, or a callee of its
// own.
struct Scope {
  const ptx::Function* function = nullptr;
  Scope* caller = nullptr;  // of an inlined callee
  std::vector<llvm::AllocaInst*> registers;
  std::unordered_map<const ptx::Variable*, llvm::Value*> param_slots;  // .param variables: pointers
  std::vector<llvm::BasicBlock*> blocks;  // by instruction index; null where no label is
  llvm::BasicBlock* return_block = nullptr;
  llvm::Value* recursive_base = nullptr;  // offset of this activation's locals, if recursive
  llvm::AllocaInst* carry = nullptr;
  std::unordered_map<const ptx::Variable*, uint32_t> recursive_offset;
};

// A scalar, or the parts of a vector.
std::vector<ptx::Operand> Parts(const ptx::Operand& operand);

// Of a number or a vector of such.
inline unsigned BitsOf(const llvm::Type* type) {
  return static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
}

class Emitter {
 public:
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;
  using Type = ptx::Type;
  using Value = llvm::Value;

  // By regions: a kernel whose threads meet becomes the code of one thread, for FormRegions; one
  // that does not suit is an error.
  //   exchange  of the entry
  Emitter(const CompileRequest& request, const WarpExchange& exchange, llvm::Module& module,
          bool by_regions);

  // False: error() and status() say why.
  bool EmitKernel();
  CodeForm form() const { return form_; }
  llvm::Function* kernel() const { return kernel_; }
  llvm::MDNode* unordered() const { return unordered_; }
  ExecStatus status() const { return status_; }
  const std::string& error() const { return error_; }

 private:
  // ---- emitter.cc: kernel, functions, blocks
  void Classify();
  bool ContainsSuspend(const ptx::Function& function) const;
  bool MustInline(const ptx::Function* function) const { return must_inline_.count(function) != 0; }
  bool EmitLoopKernel(llvm::Function* kernel);
  llvm::MDNode* UnorderedLoop();
  Value* LoadLaunch();
  void SetDereferenceable(Value* loaded, uint64_t bytes);
  bool EmitCoroutineKernel(llvm::Function* kernel);
  bool EmitThreadKernel(llvm::Function* kernel);
  bool EmitEntry();
  bool EmitOutlined(const ptx::Function* function, llvm::Function* body);
  void OpenScope(Scope* scope);  // registers, .param slots, labels
  bool EmitBody(Scope* scope);   // from the current block; ends in scope->return_block
  bool Emit(const Instruction& instruction);
  bool Dispatch(const Instruction& instruction);
  static bool Suspends(const Instruction& instruction);
  bool DispatchMutated(const Instruction& instruction);  // of mutate.cc, tests only
  bool Unsupported(const Instruction& instruction, const std::string& why = "");
  bool Fail(ExecStatus status, const std::string& text);

  // ---- operands.cc: registers, operands, special registers
  llvm::IntegerType* IntOf(unsigned bits) { return b_.getIntNTy(bits); }
  llvm::Type* TypeOf(Type type);  // float, double, i1, iN
  llvm::AllocaInst* NewAlloca(llvm::Type* type, const llvm::Twine& name = "", unsigned align = 0);
  Value* Resize(Value* integer, unsigned bits, bool is_signed = false);
  Value* AsInt(Value* value);
  Value* Cast(Value* value, llvm::Type* type);  // same width
  Value* Read(const Operand& operand, Type type);
  Value* ReadInt(const Operand& operand, unsigned bits, bool is_signed = false);
  Value* ReadPredicate(const Operand& operand);
  Value* ReadRegister(ptx::RegisterId reg);
  Value* ReadSpecial(const Operand& operand);
  Value* LaneNumber();  // %laneid
  void Write(const Operand& operand, Value* value, bool is_signed = false);
  Value* SymbolAddress(const Operand& operand);  // i64, in the variable's own space
  Value* ConstInt(unsigned bits, uint64_t value) {
    return llvm::ConstantInt::get(IntOf(bits), value);
  }
  Value* Int32(uint32_t value) { return ConstInt(32, value); }
  Value* Int64(uint64_t value) { return ConstInt(64, value); }
  Value* Field(Value* base, size_t offset, llvm::Type* type, bool invariant = false);
  void SetField(Value* base, size_t offset, Value* value);
  Value* LaunchField(size_t offset, llvm::Type* type) { return Field(launch_, offset, type, true); }
  Value* BlockField(size_t offset, llvm::Type* type) { return Field(block_, offset, type, true); }
  Value* ThreadField(size_t offset, llvm::Type* type, bool invariant = true) {
    return Field(thread_, offset, type, invariant && form_ == CodeForm::kCoroutine && !outlined_);
  }
  Value* Call(const char* name, llvm::Type* result, llvm::ArrayRef<Value*> arguments,
              bool pure = false);
  Value* Intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Type*> types,
                   llvm::ArrayRef<Value*> arguments) {
    return b_.CreateIntrinsic(id, types, arguments);
  }

  // ---- emit_integer.cc, emit_bits.cc
  bool EmitInteger(const Instruction& instruction);
  bool EmitDivision(const Instruction& instruction);
  bool EmitMultiply(const Instruction& instruction);
  bool EmitCarry(const Instruction& instruction);
  bool EmitPackedInteger(const Instruction& instruction);
  bool EmitDotProduct(const Instruction& instruction);
  bool EmitLogic(const Instruction& instruction);
  bool EmitShift(const Instruction& instruction);
  bool EmitVideo(const Instruction& instruction);  // emit_video.cc
  Value* VideoResult(const Instruction& instruction, Value* a, Value* b);
  bool EmitFunnelShift(const Instruction& instruction);
  bool EmitBitField(const Instruction& instruction);
  bool EmitBitCount(const Instruction& instruction);
  bool EmitPermute(const Instruction& instruction);
  bool EmitLop3(const Instruction& instruction);
  bool EmitBmsk(const Instruction& instruction);
  bool EmitSzext(const Instruction& instruction);

  // ---- emit_compare.cc
  bool EmitSetp(const Instruction& instruction);
  bool EmitSet(const Instruction& instruction);
  bool EmitSelect(const Instruction& instruction);
  Value* Compare(const Instruction& instruction, Type type, Value* a, Value* b);
  Value* CombineBool(ptx::BoolOp op, Value* a, Value* b);

  // ---- emit_float.cc
  bool EmitFloat(const Instruction& instruction);
  bool EmitMixedFloat(const Instruction& instruction);
  Value* FloatLane(const Instruction& instruction, Type type, llvm::ArrayRef<Value*> arguments);
  bool IsFloatType(Type type) const;
  static Type LaneType(Type type);  // of f16x2, bf16x2, f32x2; else the type
  Value* Lane(Value* packed, unsigned lane, Type lane_type);
  Value* Pack(Value* low, Value* high);
  Value* Widen(Value* value, Type type);   // f16, bf16 bits to float; others unchanged
  Value* Narrow(Value* value, Type type);  // float to f16, bf16 bits, nearest even
  Value* HalfFma(Value* a, Value* b, Value* c, Type type);
  Value* RoundToOdd(Value* sum, Value* error);
  Value* ToBf16(Value* value);
  Value* FlushSubnormal(Value* value);
  Value* FlushHalf(Value* bits);
  Value* Saturate(Value* value);
  Value* FloatMinMax(Value* a, Value* b, bool is_max, bool nan, bool xorsign_abs);
  Value* IsNan(Value* value) { return b_.CreateFCmpUNO(value, value); }
  Value* CanonicalNan(llvm::Type* type);
  Value* Rounded(const char* operation, llvm::ArrayRef<Value*> arguments, ptx::Rounding rounding);
  bool EmitTestp(const Instruction& instruction);
  bool EmitCopysign(const Instruction& instruction);

  // ---- emit_convert.cc
  bool EmitConvert(const Instruction& instruction);
  bool EmitConvertPacked(const Instruction& instruction);
  bool EmitConvertFp8(const Instruction& instruction);
  static bool IsFp8Pair(Type type);
  Value* WideIntToDouble(Value* value, bool is_signed);
  Value* IntToFloat(const Instruction& instruction, Value* value, Type to, Type from);
  Value* FloatToInt(const Instruction& instruction, Value* value, Type to, Type from);
  Value* FloatToFloat(const Instruction& instruction, Value* value, Type to, Type from);
  Value* RoundToIntegral(Value* value, ptx::Rounding rounding);
  Value* NarrowDirected(Value* value, Type to, ptx::Rounding rounding);
  bool EmitMove(const Instruction& instruction);

  // ---- emit_memory.cc
  bool EmitLoad(const Instruction& instruction);
  bool EmitStore(const Instruction& instruction);
  bool EmitCvta(const Instruction& instruction);
  bool EmitIsspacep(const Instruction& instruction);
  bool EmitAlloca(const Instruction& instruction);
  // Checked host pointer of an address operand; null after Unsupported.
  Value* Address(const Instruction& instruction, const Operand& operand, ptx::Space space,
                 unsigned bytes);
  Value* CheckedAddress(const Instruction& instruction, Value* address, ptx::Space space,
                        unsigned bytes);  // a computed one, in that space
  Value* FitsWindow(Value* offset, Value* size, unsigned bytes);
  Value* CheckedGeneric(const Instruction& instruction, Value* address, unsigned bytes);
  Value* CheckedWindow(const Instruction& instruction, Value* offset, Value* base, Value* size,
                       unsigned bytes, bool local);
  ptx::Space SpaceOf(const Operand& operand, ptx::Space written) const;
  void MarkUnordered(llvm::Instruction* access) const;

  // ---- emit_atomic.cc
  bool EmitAtomic(const Instruction& instruction);
  Value* AtomicLane(const Instruction& instruction, Value* pointer, Value* b, Value* c, bool own);
  Value* AtomicApply(const Instruction& instruction, Type type, Value* old, Value* operand,
                     Value* compare_with);

  // ---- emit_async.cc
  bool EmitAsyncCopy(const Instruction& instruction);
  bool EmitMbarrier(const Instruction& instruction);
  bool EmitMbarrierArrive(const Instruction& instruction);
  bool EmitMbarrierWait(const Instruction& instruction);
  bool EmitBytesHaveCome(const Instruction& instruction, const Operand& operand, ptx::Space space,
                         Value* bytes);
  bool EmitBulk(const Instruction& instruction);
  bool EmitTensorCopy(const Instruction& instruction);
  bool EmitTensorMap(const Instruction& instruction);
  bool EmitBulkReduction(const Instruction& instruction, Value* to, Value* from, Value* bytes);
  bool EmitClusterAddress(const Instruction& instruction);
  bool EmitClusterBarrier(const Instruction& instruction);
  void YieldUnless(Value* complete);

  // ---- emit_control.cc
  bool EmitBranch(const Instruction& instruction);
  bool EmitBranchIndexed(const Instruction& instruction);
  void BranchTo(uint32_t target);
  bool EmitCall(const Instruction& instruction);
  bool EmitIndirectCall(const Instruction& instruction);
  bool CallFunction(const Instruction& instruction, const ptx::Function* function);
  bool CallBuiltin(const Instruction& instruction, std::string_view name, bool* known);
  bool PrepareArguments(const Instruction& instruction, const ptx::Function* function,
                        std::vector<Value*>* returns, std::vector<Value*>* params);
  bool StoreReturns(const Instruction& instruction, llvm::ArrayRef<Value*> returns);
  llvm::Function* Outlined(const ptx::Function* function);
  void EmitExit();
  void Unreachable();
  void PollCancel();

  // ---- emit_texture.cc
  bool EmitTexture(const Instruction& instruction);
  bool EmitSurface(const Instruction& instruction);
  bool EmitTextureQuery(const Instruction& instruction);
  bool SetCoordinates(const Instruction& instruction, const Operand& address, Type type,
                      Value* buffer);
  Value* NewWords(unsigned words);
  void SetWord(Value* buffer, unsigned word, Value* value);
  Value* Word(Value* buffer, unsigned word);

  // ---- emit_matrix.cc
  bool EmitMatrix(const Instruction& instruction);
  void EmitMatrixPair(const Instruction& instruction, unsigned q, const Operand& data,
                      Value* own_row);
  Value* FromLane(Value* value, Value* source);
  Value* RowElement(const Instruction& instruction, Value* row, Value* place, unsigned bytes);
  Value* SmallElement(const Instruction& instruction, Value* row, Value* column, unsigned bits);
  void EmitMatrixBytes(const Instruction& instruction, const MatrixLoad& load, unsigned w,
                       llvm::ArrayRef<Operand> data, Value* own_row);
  void EmitMatrixByteStore(const Instruction& instruction, unsigned q, const Operand& data,
                           Value* own_row);
  Value* Transposed(Value* pair);

  // ---- emit_mma.cc
  bool EmitMma(const Instruction& instruction);
  bool EmitWmmaMemory(const Instruction& instruction);
  struct WmmaMemory;
  Value* WmmaAddress(const WmmaMemory& memory, unsigned i);
  Value* WmmaPointer(const Instruction& instruction, const WmmaMemory& memory, ptx::Space space);
  bool AddMatrixWords(std::vector<Value*>* words, unsigned count, const Operand& operand,
                      unsigned bits);
  void WriteMatrixWords(llvm::ArrayRef<Operand> results, llvm::ArrayRef<Value*> words,
                        unsigned bits);
  std::vector<Value*> MatrixMark(const std::string& name, unsigned count,
                                 llvm::ArrayRef<Value*> arguments, bool reads);

  // ---- emit_warp.cc
  bool EmitBarrier(const Instruction& instruction);
  bool EmitWarp(const Instruction& instruction);
  llvm::CallInst* CallMark(const char* name, llvm::Type* result = nullptr,
                           llvm::ArrayRef<Value*> arguments = {});
  // Operands of a warp operation as ThreadContext has them; what it does not read is null.
  struct WarpOperands {
    Value *value = nullptr, *b = nullptr, *c = nullptr, *predicate = nullptr, *mask = nullptr;
  };
  struct WarpResult {
    Value *value, *predicate;  // of 64 bits and of one
  };
  WarpResult WarpOperation(Wait wait, const WarpOperands& operands);
  bool CanSuspend() const { return form_ != CodeForm::kLoop && !outlined_; }
  void WarpSync(Value* mask);
  void Suspend(Wait wait);
  void StepTogether() { Suspend(Wait::kLockstep); }  // ahead of what is emitted next
  bool InEntry() const { return scope_->function == request_.entry; }
  void Yield();

  const CompileRequest& request_;
  const WarpExchange& exchange_;
  const ptx::Module& ptx_;
  const KernelLayout& layout_;
  llvm::LLVMContext& context_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  ExecStatus status_ = ExecStatus::kOk;
  std::string error_;
  CodeForm form_ = CodeForm::kLoop;
  const bool by_regions_;
  llvm::Function* kernel_ = nullptr;
  bool outlined_ = false;  // in a function of its own: no suspension, no exit
  std::unordered_set<const ptx::Function*> must_inline_;
  std::map<const ptx::Function*, llvm::Function*> outlined_functions_;
  std::vector<const ptx::Function*> to_outline_;

  Scope* scope_ = nullptr;
  uint32_t index_ = 0;   // of the instruction being emitted
  uint32_t places_ = 0;  // of kLockstep, emitted so far
  llvm::Function* llvm_function_ = nullptr;
  llvm::BasicBlock* alloca_block_ = nullptr;
  Value* block_ = nullptr;
  Value* thread_ = nullptr;
  Value* launch_ = nullptr;
  llvm::BasicBlock* exit_block_ = nullptr;     // thread is done
  llvm::BasicBlock* suspend_block_ = nullptr;  // coroutine: returns to the scheduler
  uint32_t site_ = 0;                          // distinguishes converged operations
  llvm::Value* matrix_words_ = nullptr;        // MatrixWords of the thread, once a product needs it
  llvm::MDNode* unordered_ = nullptr;          // accesses that threads make in no order
};

}  // namespace farcall::cpu_device::jit
