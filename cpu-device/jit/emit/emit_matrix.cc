// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16-bit elements, a lane holding the pair of
// columns 2 * (lane % 4) of row lane / 4, or larger ones of bytes. They are exchanges of row
// addresses, or of pairs, between lanes, and plain loads and stores.
#include "cpu-device/exec/block_matrix_ops.h"
#include "cpu-device/jit/emit/emitter.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using ptx::Opcode;

namespace {

// What an ldmatrix does, and the words of a lane that it gives. False: no such form.
bool LoadOf(const ptx::Instruction& instruction, MatrixLoad* load, unsigned* words) {
  const ptx::Modifiers& mods = instruction.mods;
  load->transposes = mods.trans;
  *words = mods.matrix_count;
  if (mods.m == 8 && mods.n == 8) return instruction.type() == ptx::Type::kB16;
  const bool six = instruction.Has("b6x16_p32"), four = instruction.Has("b4x16_p64");
  const bool widens = instruction.Has("b8x16") && six != four;
  load->element_bits = six ? 6 : four ? 4 : 8;
  if (mods.m == 8 && mods.n == 16) return widens && !mods.trans;
  *words = 2 * mods.matrix_count;
  return mods.m == 16 && mods.n == 16 && mods.trans && mods.matrix_count <= 2 &&
         (widens || instruction.type() == ptx::Type::kB8);
}

}  // namespace

// `value` (32 bits) of lane `source`, by what carries out shfl.idx; all lanes take part.
llvm::Value* Emitter::FromLane(Value* value, Value* source) {
  WarpOperands in;
  in.value = Resize(value, 64);
  in.b = source;
  in.c = Int32(31);
  in.mask = Int32(~0u);
  return Resize(WarpOperation(Wait::kShflIdx, in).value, 32);
}

// Where `place` bytes past the begin of a row lies in shared memory.
llvm::Value* Emitter::RowElement(const Instruction& instruction, Value* row, Value* place,
                                 unsigned bytes) {
  Value* offset = b_.CreateAdd(Resize(row, 64), Resize(place, 64));
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
    Value* row = FromLane(own_row, b_.CreateAdd(group, Int32(8 * q)));
    Value* at = RowElement(instruction, row, b_.CreateShl(pair_column, 1), 4);
    if (load)
      pair = b_.CreateAlignedLoad(b_.getInt32Ty(), at, llvm::Align(4));
    else
      b_.CreateAlignedStore(pair, at, llvm::Align(4));
  }
  for (unsigned i = 0; instruction.mods.trans && i < 2; ++i) {  // of two rows, column `group`
    Value* row = FromLane(own_row, b_.CreateAdd(pair_column, Int32(8 * q + i)));
    Value* at = RowElement(instruction, row, b_.CreateShl(group, 1), 2);
    if (load) {
      Value* element = b_.CreateAlignedLoad(b_.getInt16Ty(), at, llvm::Align(2));
      pair = b_.CreateOr(pair, b_.CreateShl(Resize(element, 32), 16 * i));
    } else {
      b_.CreateAlignedStore(Resize(b_.CreateLShr(pair, 16 * i), 16), at, llvm::Align(2));
    }
  }
  if (load) Write(data, pair);
}

// The element at `column` of a row, of 4 to 8 bits.
llvm::Value* Emitter::SmallElement(const Instruction& instruction, Value* row, Value* column,
                                   unsigned bits) {
  Value* bit = b_.CreateMul(column, Int32(bits));
  const unsigned bytes = bits == 6 ? 2 : 1;  // one of 6 may begin in one byte and end in the next
  Value* at = RowElement(instruction, row, b_.CreateLShr(bit, 3), 1);
  Value* loaded = b_.CreateAlignedLoad(IntOf(8 * bytes), at, llvm::Align(1));
  loaded = b_.CreateLShr(Resize(loaded, 32), b_.CreateAnd(bit, 7));
  return b_.CreateAnd(loaded, (1u << bits) - 1);
}

// Words `w` and, transposed, the next one: see LoadBytes of exec/block_matrix_ops.cc.
void Emitter::EmitMatrixBytes(const Instruction& instruction, const MatrixLoad& load, unsigned w,
                              llvm::ArrayRef<Operand> data, Value* own_row) {
  Value* lane = LaneNumber();
  Value *group = b_.CreateLShr(lane, 2), *four = b_.CreateShl(b_.CreateAnd(lane, 3), 2);
  Value* words[2] = {Int32(0), Int32(0)};
  Value* row = nullptr;
  for (unsigned i = 0; i < 4; ++i) {
    if (load.transposes || i == 0) {
      row = FromLane(own_row, b_.CreateAdd(load.transposes ? four : group,
                                           Int32(8 * w + (load.transposes ? i : 0))));
    }
    for (unsigned half = 0; half < data.size(); ++half) {
      Value* column =
          load.transposes ? b_.CreateAdd(group, Int32(8 * half)) : b_.CreateAdd(four, Int32(i));
      Value* element = SmallElement(instruction, row, column, load.element_bits);
      words[half] = b_.CreateOr(words[half], b_.CreateShl(element, 8 * i));
    }
  }
  for (unsigned half = 0; half < data.size(); ++half) Write(data[half], words[half]);
}

// stmatrix of matrix `q` of 16 x 8 bytes, which lie in memory by columns: a lane has the pair of
// columns 2 * (lane % 4) of row lane / 4, then of the row 8 further on.
void Emitter::EmitMatrixByteStore(const Instruction& instruction, unsigned q, const Operand& data,
                                  Value* own_row) {
  Value* lane = LaneNumber();
  Value *group = b_.CreateLShr(lane, 2), *pair_column = b_.CreateShl(b_.CreateAnd(lane, 3), 1);
  Value* word = ReadInt(data, 32);
  for (unsigned i = 0; i < 2; ++i) {
    Value* row = FromLane(own_row, b_.CreateAdd(pair_column, Int32(8 * q + i)));
    for (unsigned half = 0; half < 2; ++half) {
      Value* at = RowElement(instruction, row, b_.CreateAdd(group, Int32(8 * half)), 1);
      Value* element = Resize(b_.CreateLShr(word, 16 * half + 8 * i), 8);
      b_.CreateAlignedStore(element, at, llvm::Align(1));
    }
  }
}

bool Emitter::EmitMatrix(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  bool load = instruction.Is(Opcode::kLdmatrix);
  const bool halves = mods.m == 8 && mods.n == 8 && instruction.type() == Type::kB16;
  const bool byte_store = instruction.Is(Opcode::kStmatrix) && mods.m == 16 && mods.n == 8 &&
                          mods.trans && instruction.type() == Type::kB8;
  MatrixLoad how;
  unsigned count = mods.matrix_count;
  if ((load ? !LoadOf(instruction, &how, &count) : !halves && !byte_store) || ops.size() != 2)
    return Unsupported(instruction, "matrix shape");
  if (instruction.Is(Opcode::kMovmatrix)) {
    if (!mods.trans) return Unsupported(instruction);
    Write(ops[0], Transposed(ReadInt(ops[1], 32)));
    return true;
  }
  const Operand &data = ops[load ? 0 : 1], &address = ops[load ? 1 : 0];
  ptx::Space space = SpaceOf(address, mods.space);
  if (space != ptx::Space::kShared && space != ptx::Space::kNone)
    return Unsupported(instruction, "state space");
  bool list = data.Is(Operand::Kind::kVector);
  if (count == 0 || (list ? data.elements.size() : 1) != count)
    return Unsupported(instruction, "operand count");
  Value* own_row = Resize(SymbolAddress(address), 64);
  if (space == ptx::Space::kNone) {  // a generic address, which has to lie in shared memory
    Value* shared = BlockField(offsetof(BlockContext, shared), b_.getPtrTy());
    own_row = b_.CreateSub(own_row, b_.CreatePtrToInt(shared, b_.getInt64Ty()));
  }
  // What lies elsewhere stays outside of the window.
  own_row = b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, own_row, Int64(~0u)),
                           IntOf(32));
  const llvm::ArrayRef<Operand> parts = list ? llvm::ArrayRef(data.elements) : llvm::ArrayRef(data);
  if (load && form_ == CodeForm::kRegions) {
    const std::string name = kMarkMatrices + std::to_string(count);
    const std::vector<Value*> words = MatrixMark(
        name, count, {own_row, Int32(how.Code()), Int32(instruction.line)}, /*reads=*/true);
    WriteMatrixWords(parts, words, 32);
    return true;
  }
  const unsigned step = load && !halves && how.transposes ? 2 : 1;
  for (unsigned q = 0; q < count; q += step)
    if (halves)
      EmitMatrixPair(instruction, q, parts[q], own_row);
    else if (load)
      EmitMatrixBytes(instruction, how, q, parts.slice(q, step), own_row);
    else
      EmitMatrixByteStore(instruction, q, parts[q], own_row);
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
