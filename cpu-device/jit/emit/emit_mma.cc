// SPDX-License-Identifier: Apache-2.0
// mma.sync and wmma.mma: a lane's registers into words (exec/matrix_ops.h), the warp's product,
// the sums out of them.
#include "cpu-device/exec/matrix_ops.h"
#include "cpu-device/jit/emit/emitter.h"
#include "cpu-device/jit/regions/marks.h"

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
    case Type::kS4:
      return *out = MatrixType::kS4, true;
    case Type::kU4:
      return *out = MatrixType::kU4, true;
    case Type::kB1:
      return *out = MatrixType::kB1, true;
    default:
      return false;
  }
}

// d, a, b, c are written in this order; wmma of halves names d and c. False: a shape or type that
// is not carried out here.
bool FormOf(const ptx::Instruction& instruction, MatrixForm* form) {
  const ptx::Modifiers& mods = instruction.mods;
  const bool warp = instruction.Is(ptx::Opcode::kWmma), halves = warp && mods.type_count == 2;
  const Type types[] = {mods.types[0], halves ? Type::kF16 : mods.types[1],
                        halves ? Type::kF16 : mods.types[2], mods.types[halves ? 1 : 3]};
  if ((mods.type_count != 4 && !halves) || !Known(types[0], &form->d) ||
      !Known(types[1], &form->a) || !Known(types[2], &form->b) || !Known(types[3], &form->c))
    return false;
  for (const char* other : {"sp", "sp::ordered_metadata", "block_scale", "kind::mxf8f6f4"})
    if (instruction.Has(other)) return false;
  form->m = mods.m;
  form->n = mods.n;
  form->k = mods.k;
  form->saturates = mods.satfinite;
  form->by_lines = warp;
  form->a_by_columns = warp && mods.layout_a == ptx::Layout::kCol;
  form->b_by_columns = warp && mods.layout_b == ptx::Layout::kCol;
  if (form->a == MatrixType::kB1) {
    form->conjunction = instruction.Has("and");
    if (!form->conjunction && !instruction.Has("xor")) return false;
  }
  unsigned bits = BitsOf(form->a);
  if (bits != BitsOf(form->b) || mods.m == 0 || mods.n == 0 || mods.k == 0) return false;
  // Of halves, the oldest shape has lanes of its own.
  bool shape = warp ? mods.m <= kMaxMatrixRows && mods.n <= kMaxMatrixColumns
                    : (mods.m == 16 || mods.m == 8) && mods.n == 8 && mods.k >= 4 &&
                          !(mods.m == 8 && bits == 16);
  shape = shape && mods.k <= kMaxMatrixDepth && mods.m * mods.k <= kMaxMatrixA &&
          mods.k * mods.n <= kMaxMatrixB && mods.m * mods.n <= kMaxMatrixD;
  // A lane's share of each fills words.
  auto whole = [](uint32_t elements, MatrixType type) {
    return elements % kWarpSize == 0 && elements / kWarpSize * BitsOf(type) % 32 == 0;
  };
  return shape && whole(mods.m * mods.k, form->a) && whole(mods.k * mods.n, form->b) &&
         whole(mods.m * mods.n, form->c) && whole(mods.m * mods.n, form->d) &&
         form->WordsOfA() <= std::size(MatrixWords{}.a) &&
         form->WordsOfB() <= std::size(MatrixWords{}.b) &&
         form->WordsOfC() <= std::size(MatrixWords{}.c) &&
         form->WordsOfD() <= std::size(MatrixWords{}.c);
}

}  // namespace

// `count` words of registers of 32 or 64 bits; what the fragment has beyond them stays unused.
// False: fewer than there are words.
bool Emitter::AddMatrixWords(std::vector<Value*>* words, unsigned count, const Operand& operand,
                             unsigned bits) {
  const std::vector<Operand> parts = Parts(operand);
  if (parts.size() * bits < count * 32) return false;
  for (unsigned i = 0; i * bits < count * 32; ++i) {
    Value* value = ReadInt(parts[i], bits);
    words->push_back(b_.CreateTrunc(value, IntOf(32)));
    if (bits == 64) words->push_back(b_.CreateTrunc(b_.CreateLShr(value, 32), IntOf(32)));
  }
  return true;
}

void Emitter::WriteMatrixWords(llvm::ArrayRef<Operand> results, llvm::ArrayRef<Value*> words,
                               unsigned bits) {
  for (unsigned i = 0; i * bits < words.size() * 32; ++i) {
    Value* value = words[i * bits / 32];
    if (bits == 64) {
      Value* high = b_.CreateZExt(words[2 * i + 1], b_.getInt64Ty());
      value = b_.CreateOr(b_.CreateZExt(value, b_.getInt64Ty()), b_.CreateShl(high, 32));
    }
    Write(results[i], value);
  }
}

// A mark that gives `count` words.
std::vector<llvm::Value*> Emitter::MatrixMark(const std::string& name, unsigned count,
                                              llvm::ArrayRef<Value*> arguments, bool reads) {
  llvm::CallInst* mark =
      CallMark(name.c_str(), llvm::ArrayType::get(b_.getInt32Ty(), count), arguments);
  reads ? mark->setOnlyReadsMemory() : mark->setDoesNotAccessMemory();
  mark->addFnAttr(llvm::Attribute::WillReturn);
  std::vector<Value*> words(count);
  for (unsigned i = 0; i < count; ++i) words[i] = b_.CreateExtractValue(mark, i);
  return words;
}

bool Emitter::EmitMma(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  MatrixForm form;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  if (!FormOf(instruction, &form) || ops.size() != 4)
    return Unsupported(instruction, "shape or types");
  auto width = [](MatrixType type) { return BitsOf(type) == 64 ? 64u : 32u; };
  const unsigned in_a = form.WordsOfA(), in_b = form.WordsOfB(), in_d = form.WordsOfD();
  std::vector<Value*> words;
  if (!AddMatrixWords(&words, in_a, ops[1], width(form.a)) ||
      !AddMatrixWords(&words, in_b, ops[2], width(form.b)) ||
      !AddMatrixWords(&words, form.WordsOfC(), ops[3], width(form.c)))
    return Unsupported(instruction, "operand count");
  const std::vector<Operand> results = Parts(ops[0]);
  if (results.size() * width(form.d) < in_d * 32) return Unsupported(instruction, "operand count");
  Value *types = Int32(form.TypesAndFlags()), *sizes = Int32(form.Sizes());
  if (form_ == CodeForm::kRegions) {
    const std::string name =
        kMarkProduct + std::to_string(words.size()) + "." + std::to_string(in_d);
    words.insert(words.begin(), {types, sizes});
    WriteMatrixWords(results, MatrixMark(name, in_d, words, /*reads=*/false), width(form.d));
    return true;
  }
  constexpr unsigned kB = offsetof(MatrixWords, b) / 4, kC = offsetof(MatrixWords, c) / 4;
  // One for all products of a thread: each has its sums out before the next one begins.
  if (!matrix_words_) matrix_words_ = NewWords(sizeof(MatrixWords) / 4);
  for (unsigned i = 0; i < words.size(); ++i) {
    const unsigned at = i < in_a ? i : i < in_a + in_b ? kB + i - in_a : kC + i - in_a - in_b;
    SetWord(matrix_words_, at, words[i]);
  }
  WarpOperands in;
  in.value = b_.CreatePtrToInt(matrix_words_, b_.getInt64Ty());
  in.b = types;
  in.c = sizes;
  in.mask = Int32(~0u);
  WarpOperation(Wait::kMma, in);
  words.resize(in_d);
  for (unsigned i = 0; i < in_d; ++i) words[i] = Word(matrix_words_, kC + i);
  WriteMatrixWords(results, words, width(form.d));
  return true;
}

// A fragment of wmma in memory: this lane's elements and the lines that they lie in.
struct Emitter::WmmaMemory {
  unsigned rows, columns, bits;
  bool by_row;
  bool in_order;  // the lane's elements lie side by side: see MatrixForm::by_lines
  Value *base, *stride;

  unsigned share() const { return rows * columns / kWarpSize; }
};

// Where element `i` of this lane's share lies.
llvm::Value* Emitter::WmmaAddress(const WmmaMemory& memory, unsigned i) {
  const unsigned length = memory.in_order && !memory.by_row ? memory.rows : memory.columns;
  Value* at = b_.CreateAdd(b_.CreateMul(LaneNumber(), Int32(memory.share())), Int32(i));
  Value *line = b_.CreateUDiv(at, Int32(length)), *inside = b_.CreateURem(at, Int32(length));
  if (!memory.in_order && !memory.by_row) std::swap(line, inside);
  Value* index = b_.CreateAdd(b_.CreateMul(Resize(line, 64), memory.stride), Resize(inside, 64));
  return b_.CreateAdd(memory.base, b_.CreateMul(index, Int64(memory.bits / 8)));
}

// The lane's whole share as one vector: of its addresses the first and the last are looked at.
llvm::Value* Emitter::WmmaPointer(const Instruction& instruction, const WmmaMemory& memory,
                                  ptx::Space space) {
  Value* pointer = CheckedAddress(instruction, WmmaAddress(memory, 0), space, memory.bits / 8);
  if (pointer == nullptr || memory.share() == 1) return pointer;
  Value* last = WmmaAddress(memory, memory.share() - 1);
  return CheckedAddress(instruction, last, space, memory.bits / 8) ? pointer : nullptr;
}

// wmma.load, wmma.store: each lane its own elements, once all lanes are here.
bool Emitter::EmitWmmaMemory(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  const bool store = mods.matrix_op == ptx::MatrixOp::kStoreD,
             factor =
                 mods.matrix_op == ptx::MatrixOp::kLoadA || mods.matrix_op == ptx::MatrixOp::kLoadB;
  WmmaMemory memory{};
  memory.rows = mods.matrix_op == ptx::MatrixOp::kLoadB ? mods.k : mods.m;
  memory.columns = mods.matrix_op == ptx::MatrixOp::kLoadA ? mods.k : mods.n;
  memory.bits = ptx::BitsOf(instruction.type());
  memory.by_row = mods.layout_a == ptx::Layout::kRow;
  memory.in_order = factor || memory.by_row;
  const unsigned bits = memory.bits, share = memory.share();
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  if (ops.size() < 2 || mods.layout_a == ptx::Layout::kNone || share == 0 || share > 64 ||
      memory.rows * memory.columns % kWarpSize != 0 || bits < 8)
    return Unsupported(instruction, "shape or type");
  const unsigned line = memory.by_row ? memory.columns : memory.rows;
  const unsigned held = bits == 64 ? 64 : 32, words = (share * bits + held - 1) / held;
  const Operand &address = ops[store ? 0 : 1], &fragment = ops[store ? 1 : 0];
  const std::vector<Operand> parts = Parts(fragment);
  if (parts.size() < words) return Unsupported(instruction, "operand count");
  WarpSync(Int32(~0u));
  memory.stride = Resize(ops.size() > 2 ? ReadInt(ops[2], 32) : Int32(line), 64);
  const ptx::Space space = SpaceOf(address, mods.space);
  memory.base = SymbolAddress(address);
  const llvm::Align align(bits / 8);
  if (memory.in_order && line % share == 0 && share * bits % held == 0) {
    auto* whole = llvm::FixedVectorType::get(IntOf(bits), share);
    auto* as_words = llvm::FixedVectorType::get(IntOf(held), words);
    Value* pointer = WmmaPointer(instruction, memory, space);
    if (!pointer) return false;
    Value* values = store ? llvm::PoisonValue::get(as_words)
                          : b_.CreateBitCast(b_.CreateAlignedLoad(whole, pointer, align), as_words);
    for (unsigned w = 0; w < words; ++w) {
      if (store) values = b_.CreateInsertElement(values, ReadInt(parts[w], held), w);
      if (!store) Write(parts[w], b_.CreateExtractElement(values, w));
    }
    if (store) b_.CreateAlignedStore(b_.CreateBitCast(values, whole), pointer, align);
    return true;
  }
  for (unsigned w = 0; w < words; ++w) {
    Value* word = store ? ReadInt(parts[w], held) : ConstInt(held, 0);
    for (unsigned i = 0; i < std::max(held / bits, 1u) && w * (held / bits) + i < share; ++i) {
      Value* at = WmmaAddress(memory, w * (held / bits) + i);
      Value* pointer = CheckedAddress(instruction, at, space, bits / 8);
      if (!pointer) return false;
      if (store) {
        b_.CreateAlignedStore(Resize(b_.CreateLShr(word, i * bits), bits), pointer, align);
      } else {
        Value* loaded = Resize(b_.CreateAlignedLoad(IntOf(bits), pointer, align), held);
        word = b_.CreateOr(word, b_.CreateShl(loaded, i * bits));
      }
    }
    if (!store) Write(parts[w], word);
  }
  return true;
}

}  // namespace farcall::cpu_device::jit
