// SPDX-License-Identifier: Apache-2.0
// mma.sync: a lane's registers into words (exec/matrix_ops.h), suspend, the sums out of them.
#include "cpu-device/exec/matrix_ops.h"
#include "cpu-device/jit/emitter.h"

namespace farcall::cpu_device::jit {

namespace {

using ptx::Type;

bool Known(Type type, MatrixType* out) {
  switch (type) {
    case Type::kF16:
      return *out = MatrixType::kF16, true;
    case Type::kBf16:
      return *out = MatrixType::kBf16, true;
    case Type::kTf32:
      return *out = MatrixType::kTf32, true;
    case Type::kF64:
      return *out = MatrixType::kF64, true;
    case Type::kS8:
      return *out = MatrixType::kS8, true;
    case Type::kU8:
      return *out = MatrixType::kU8, true;
    case Type::kE4m3:
      return *out = MatrixType::kE4m3, true;
    case Type::kE5m2:
      return *out = MatrixType::kE5m2, true;
    case Type::kF32:
      return *out = MatrixType::kF32, true;
    case Type::kS32:
      return *out = MatrixType::kS32, true;
    default:
      return false;
  }
}

// d, a, b, c are written in this order. False: a shape or type that is not carried out here.
bool FormOf(const ptx::Instruction& instruction, MatrixForm* form) {
  const ptx::Modifiers& mods = instruction.mods;
  if (mods.type_count != 4 || !Known(mods.types[0], &form->d) || !Known(mods.types[1], &form->a) ||
      !Known(mods.types[2], &form->b) || !Known(mods.types[3], &form->c)) {
    return false;
  }
  for (const char* other : {"sp", "sp::ordered_metadata", "block_scale", "kind::mxf8f6f4"}) {
    if (instruction.Has(other)) return false;
  }
  unsigned bits = ptx::BitsOf(mods.types[1]);
  form->tall = mods.m == 16;
  form->k = mods.k;
  form->saturates = mods.satfinite;
  // What fits the words: 4 registers of a and 2 of b; the older shape of halves has lanes of its
  // own.
  bool shape = (mods.m == 16 || mods.m == 8) && mods.n == 8 && bits == ptx::BitsOf(mods.types[2]);
  bool older = mods.m == 8 && bits == 16;
  bool wide = bits == 64 && (mods.m != 8 || mods.k != 4);
  return shape && !older && !wide && mods.k >= 4 && mods.k * bits <= 256;
}

}  // namespace

// Registers of 32 or 64 bits into words from `first` on. False: not as many as there are words.
bool Emitter::SetMatrixWords(Value* words, unsigned first, unsigned count, const Operand& operand,
                             unsigned bits) {
  const std::vector<Operand> parts = Parts(operand);
  if (parts.size() * bits != count * 32) return false;
  for (unsigned i = 0; i < parts.size(); ++i) {
    Value* value = ReadInt(parts[i], bits);
    SetWord(words, first + i * bits / 32, bits == 64 ? b_.CreateTrunc(value, IntOf(32)) : value);
    if (bits == 64) {
      SetWord(words, first + 2 * i + 1, b_.CreateTrunc(b_.CreateLShr(value, 32), IntOf(32)));
    }
  }
  return true;
}

bool Emitter::EmitMma(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  MatrixForm form;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  if (!FormOf(instruction, &form) || ops.size() != 4) {
    return Unsupported(instruction, "shape or types");
  }
  constexpr unsigned kA = offsetof(MatrixWords, a) / 4, kB = offsetof(MatrixWords, b) / 4,
                     kC = offsetof(MatrixWords, c) / 4;
  auto width = [&](unsigned type) { return ptx::BitsOf(instruction.type(type)) == 64 ? 64u : 32u; };
  unsigned rows = form.tall ? 2 : 1, bits = ptx::BitsOf(instruction.type(1));
  Value* words = NewWords(sizeof(MatrixWords) / 4);
  if (!SetMatrixWords(words, kA, rows * form.k / 4 * bits / 32, ops[1], width(1)) ||
      !SetMatrixWords(words, kB, form.k / 4 * bits / 32, ops[2], width(2)) ||
      !SetMatrixWords(words, kC, 2 * rows * ptx::BitsOf(instruction.type(3)) / 32, ops[3],
                      width(3))) {
    return Unsupported(instruction, "operand count");
  }
  const std::vector<Operand> results = Parts(ops[0]);
  if (results.size() * width(0) != 2 * rows * ptx::BitsOf(instruction.type(0))) {
    return Unsupported(instruction, "operand count");
  }
  SetField(thread_, offsetof(ThreadContext, value), b_.CreatePtrToInt(words, b_.getInt64Ty()));
  SetField(thread_, offsetof(ThreadContext, c), Int32(form.Pack()));
  SetField(thread_, offsetof(ThreadContext, mask), Int32(~0u));
  Suspend(Wait::kMma);
  for (unsigned i = 0; i < results.size(); ++i) {
    if (width(0) == 32) {
      Write(results[i], Word(words, kC + i));
      continue;
    }
    Value* low = b_.CreateZExt(Word(words, kC + 2 * i), b_.getInt64Ty());
    Value* high = b_.CreateZExt(Word(words, kC + 2 * i + 1), b_.getInt64Ty());
    Write(results[i], b_.CreateOr(low, b_.CreateShl(high, 32)));
  }
  return true;
}

}  // namespace farcall::cpu_device::jit
