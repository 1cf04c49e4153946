// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16-bit elements, a lane holding the pair of
// columns 2 * (lane % 4) of row lane / 4. They are exchanges of row addresses, or of pairs, between
// lanes, and plain loads and stores.
#include "cpu-device/jit/emitter.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using ptx::Opcode;

// `value` (32 bits) of lane `source`, by what carries out shfl.idx; all lanes take part.
llvm::Value* Emitter::FromLane(Value* value, Value* source) {
  WarpOperands in;
  in.value = Resize(value, 64);
  in.b = source;
  in.c = Int32(31);
  in.mask = Int32(~0u);
  return Resize(WarpOperation(Wait::kShflIdx, in).value, 32);
}

// Where element `column` of the row that lane `source` names starts in shared memory.
llvm::Value* Emitter::RowElement(const Instruction& instruction, Value* own_row, Value* source,
                                 Value* column, unsigned bytes) {
  Value* row = FromLane(own_row, source);
  Value* offset = b_.CreateAdd(Resize(row, 64), Resize(b_.CreateShl(column, 1), 64));
  Value* base = BlockField(offsetof(BlockContext, shared), b_.getPtrTy());
  Value* size = BlockField(offsetof(BlockContext, shared_bytes), b_.getInt64Ty());
  return CheckedWindow(instruction, offset, base, size, bytes, false);
}

// Matrix `q` of an ldmatrix or stmatrix: the lane's register, from or to the rows of lanes 8 * q
// on.
void Emitter::EmitMatrixPair(const Instruction& instruction, unsigned q, const Operand& data,
                             Value* own_row) {
  bool load = instruction.Is(Opcode::kLdmatrix);
  Value* lane = LaneNumber();
  Value *group = b_.CreateLShr(lane, 2), *pair_column = b_.CreateShl(b_.CreateAnd(lane, 3), 1);
  Value* pair = load ? static_cast<Value*>(Int32(0)) : ReadInt(data, 32);
  if (!instruction.mods.trans) {
    Value* source = b_.CreateAdd(group, Int32(8 * q));
    Value* at = RowElement(instruction, own_row, source, pair_column, 4);
    if (load) {
      pair = b_.CreateAlignedLoad(b_.getInt32Ty(), at, llvm::Align(4));
    } else {
      b_.CreateAlignedStore(pair, at, llvm::Align(4));
    }
  }
  for (unsigned i = 0; instruction.mods.trans && i < 2; ++i) {  // of two rows, column `group`
    Value* source = b_.CreateAdd(pair_column, Int32(8 * q + i));
    Value* at = RowElement(instruction, own_row, source, group, 2);
    if (load) {
      Value* element = b_.CreateAlignedLoad(b_.getInt16Ty(), at, llvm::Align(2));
      pair = b_.CreateOr(pair, b_.CreateShl(Resize(element, 32), 16 * i));
    } else {
      b_.CreateAlignedStore(Resize(b_.CreateLShr(pair, 16 * i), 16), at, llvm::Align(2));
    }
  }
  if (load) Write(data, pair);
}

bool Emitter::EmitMatrix(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  if (mods.m != 8 || mods.n != 8 || instruction.type() != Type::kB16 || ops.size() != 2) {
    return Unsupported(instruction, "matrix shape");
  }
  if (instruction.Is(Opcode::kMovmatrix)) {
    if (!mods.trans) return Unsupported(instruction);
    Write(ops[0], Transposed(ReadInt(ops[1], 32)));
    return true;
  }
  bool load = instruction.Is(Opcode::kLdmatrix);
  const Operand &data = ops[load ? 0 : 1], &address = ops[load ? 1 : 0];
  ptx::Space space = SpaceOf(address, mods.space);
  if (space != ptx::Space::kShared && space != ptx::Space::kNone) {
    return Unsupported(instruction, "state space");
  }
  bool list = data.Is(Operand::Kind::kVector);
  if (mods.matrix_count == 0 || (list ? data.elements.size() : 1) != mods.matrix_count) {
    return Unsupported(instruction, "operand count");
  }
  Value* own_row = Resize(SymbolAddress(address), 64);
  if (space == ptx::Space::kNone) {  // a generic address, which has to lie in shared memory
    Value* shared = BlockField(offsetof(BlockContext, shared), b_.getPtrTy());
    own_row = b_.CreateSub(own_row, b_.CreatePtrToInt(shared, b_.getInt64Ty()));
  }
  // What lies elsewhere stays outside of the window.
  own_row = b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, own_row, Int64(~0u)),
                           IntOf(32));
  if (load && form_ == CodeForm::kRegions) {
    const std::string name = kMarkMatrices + std::to_string(mods.matrix_count);
    const std::vector<Value*> words =
        MatrixMark(name, mods.matrix_count,
                   {own_row, Int32(mods.trans ? 1 : 0), Int32(instruction.line)}, /*reads=*/true);
    WriteMatrixWords(list ? llvm::ArrayRef(data.elements) : llvm::ArrayRef(data), words, 32);
    return true;
  }
  for (unsigned q = 0; q < mods.matrix_count; ++q) {
    EmitMatrixPair(instruction, q, list ? data.elements[q] : data, own_row);
  }
  return true;
}

// The lane's pair of the transposed matrix: two rows' elements of column lane / 4.
llvm::Value* Emitter::Transposed(Value* pair) {
  Value* lane = LaneNumber();
  Value *group = b_.CreateLShr(lane, 2), *pair_column = b_.CreateShl(b_.CreateAnd(lane, 3), 1);
  Value* result = Int32(0);
  for (unsigned i = 0; i < 2; ++i) {
    Value* row = b_.CreateAdd(pair_column, Int32(i));
    Value* source = b_.CreateAdd(b_.CreateShl(row, 2), b_.CreateLShr(group, 1));
    Value* theirs = FromLane(pair, source);
    Value* shift = b_.CreateShl(b_.CreateAnd(group, 1), 4);
    Value* element = b_.CreateAnd(b_.CreateLShr(theirs, shift), 0xffff);
    result = b_.CreateOr(result, b_.CreateShl(element, 16 * i));
  }
  return result;
}

}  // namespace farcall::cpu_device::jit
