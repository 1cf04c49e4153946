// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/thread_stride.h"

#include <llvm/IR/GetElementPtrTypeIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Operator.h>

#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::Instruction;
using llvm::Value;

namespace {

constexpr unsigned kMaxSteps = 64;

class Reader {
 public:
  Reader(const Divergence& divergence, const llvm::DataLayout& layout)
      : divergence_(divergence), layout_(layout) {}

  std::optional<int64_t> Of(const Value* value) {
    const auto* instruction = llvm::dyn_cast<Instruction>(value);
    if (!instruction || !divergence_.Varies(value)) return 0;
    if (++steps_ > kMaxSteps) return std::nullopt;
    if (const llvm::StringRef mark = MarkOf(*value); !mark.empty()) {
      if (mark == kMarkTid[0] || mark == kMarkLinear) return 1;
      if (mark == kMarkTid[1] || mark == kMarkTid[2]) return 0;
      return std::nullopt;
    }
    switch (instruction->getOpcode()) {
      case Instruction::Add:
      case Instruction::Or:
        return Sum(Of(instruction->getOperand(0)), Of(instruction->getOperand(1)), 1);
      case Instruction::Sub:
        return Sum(Of(instruction->getOperand(0)), Of(instruction->getOperand(1)), -1);
      case Instruction::Mul:
        return Product(instruction, [](uint64_t factor) { return static_cast<int64_t>(factor); });
      case Instruction::Shl:
        return Product(instruction, [](uint64_t bits) { return int64_t{1} << (bits & 31); });
      case Instruction::ZExt:
      case Instruction::SExt:
      case Instruction::Trunc:
      case Instruction::PtrToInt:
      case Instruction::IntToPtr:
        return Of(instruction->getOperand(0));
      case Instruction::GetElementPtr:
        return OfPointer(llvm::cast<llvm::GEPOperator>(*instruction));
      default:
        return std::nullopt;
    }
  }

 private:
  static std::optional<int64_t> Sum(std::optional<int64_t> a, std::optional<int64_t> b,
                                    int64_t sign) {
    if (!a || !b) return std::nullopt;
    return *a + sign * *b;
  }
  template <typename F>
  std::optional<int64_t> Product(const Instruction* instruction, F factor) {
    const std::optional<int64_t> stride = Of(instruction->getOperand(0));
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(instruction->getOperand(1));
    if (!stride) return std::nullopt;
    if (*stride == 0 && Of(instruction->getOperand(1)) == 0) return 0;
    if (!constant || constant->getBitWidth() > 64) return std::nullopt;
    return *stride * factor(constant->getZExtValue());
  }
  std::optional<int64_t> OfPointer(const llvm::GEPOperator& pointer) {
    std::optional<int64_t> stride = Of(pointer.getPointerOperand());
    for (auto at = llvm::gep_type_begin(pointer); at != llvm::gep_type_end(pointer); ++at) {
      const std::optional<int64_t> index = Of(at.getOperand());
      if (!stride || !index) return std::nullopt;
      if (*index == 0) continue;
      if (at.isStruct()) return std::nullopt;
      *stride += *index * static_cast<int64_t>(at.getSequentialElementStride(layout_));
    }
    return stride;
  }

  const Divergence& divergence_;
  const llvm::DataLayout& layout_;
  unsigned steps_ = 0;
};

}  // namespace

std::optional<int64_t> ThreadStride(const Value* value, const Divergence& divergence,
                                    const llvm::DataLayout& layout) {
  return Reader(divergence, layout).Of(value);
}

}  // namespace farcall::cpu_device::jit
