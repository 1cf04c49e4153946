// SPDX-License-Identifier: Apache-2.0
// Calls that stand for something in the code of one thread until regions are formed.
#pragma once

#include <llvm/IR/Instructions.h>

namespace farcall::cpu_device::jit {

// i32(): of the thread.
inline constexpr char kMarkTid[3][16] = {"fc.thread.x", "fc.thread.y", "fc.thread.z"};
inline constexpr char kMarkLinear[] = "fc.thread.linear";
// void(): all threads of the block meet.
inline constexpr char kMarkMeet[] = "fc.meet";
// i64(i32 wait, i64 value, i32 b, i32 c, i32 predicate, i32 mask): they meet, and each warp carries
// out what `wait` says, with operands as in ThreadContext. The result is the value, the predicate
// above it; or i32, the value alone.
inline constexpr char kMarkWarp[] = "fc.warp";
inline constexpr char kMarkNarrowWarp[] = "fc.warp.32";
// [d x i32](i32 types and flags, i32 sizes, i32 words...): they meet, and each warp multiplies the
// matrices of which a thread has these words (exec/matrix_ops.h): a's, b's, c's. A function for
// each count of words.
inline constexpr char kMarkProduct[] = "fc.product.";
// [n x i32](i32 row, i32 MatrixLoad, i32 line): they meet, and each warp loads matrices, n words a
// thread, by the rows' offsets in shared memory (ldmatrix).
inline constexpr char kMarkMatrices[] = "fc.matrices.";
// i32(i32 how, i32 predicate): they meet, and all get what their predicates come to, by how.
inline constexpr char kMarkReduce[] = "fc.reduce";
// void(): the thread ends here, ahead of what the others still meet at.
inline constexpr char kMarkLeave[] = "fc.leave";
// void(): the grid may be stopped here.
inline constexpr char kMarkPoll[] = "fc.poll";

inline llvm::StringRef MarkOf(const llvm::Value& value) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&value);
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  const bool mark = callee && callee->getName().starts_with("fc.");
  return mark ? callee->getName() : llvm::StringRef();
}
inline bool IsWarpMark(const llvm::Value& value) {
  return MarkOf(value) == kMarkWarp || MarkOf(value) == kMarkNarrowWarp;
}
inline bool IsProduct(const llvm::Value& value) {
  return MarkOf(value).starts_with(kMarkProduct);
}
inline bool IsMatrixMark(const llvm::Value& value) {
  return IsProduct(value) || MarkOf(value).starts_with(kMarkMatrices);
}
// A word of what such a mark gives.
inline const llvm::CallInst* MatrixMarkOf(const llvm::Value& word) {
  const auto* element = llvm::dyn_cast<llvm::ExtractValueInst>(&word);
  if (!element || !IsMatrixMark(*element->getAggregateOperand())) return nullptr;
  return llvm::cast<llvm::CallInst>(element->getAggregateOperand());
}
inline bool IsMeeting(const llvm::Value& value) {
  return IsWarpMark(value) || IsMatrixMark(value) || MarkOf(value) == kMarkMeet ||
         MarkOf(value) == kMarkReduce;
}

}  // namespace farcall::cpu_device::jit
