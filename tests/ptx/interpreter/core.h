// SPDX-License-Identifier: Apache-2.0
// Executes one instruction for one thread. Constructed anew for every step: state lives in Thread
// and Block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ptx/interpreter/machine.h"
#include "tests/ptx/interpreter/number.h"

namespace farcall::cpu_device::ptx_interpreter {

using Kind = ptx::Operand::Kind;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

class Core {
 public:
  Core(Block& block, Thread& thread)
      : block_(block), thread_(thread), in_(thread.instruction()), mods_(in_.mods) {}

  // Executes and moves the pc on. A thread that must wait keeps its pc and changes its state.
  void Step();
  bool GuardHolds() const;

  // Collectives and barriers, once all have come: what the scheduler calls, lane by lane.
  static void Collective(Block& block, const std::vector<Thread*>& lanes);
  static void BarrierReduction(Block& block, const std::vector<Thread*>& waiting);

  uint64_t Read(const Operand& operand, Type type) const;
  void Write(const Operand& operand, Type type, uint64_t bits);
  const Operand& Op(size_t i) const;
  const ptx::Instruction& instruction() const { return in_; }

 private:
  // operands.cc
  Reg& Register(const Operand& operand) const;
  bool ReadPredicate(const Operand& operand) const { return Read(operand, Type::kPred) != 0; }
  void WritePredicate(const Operand& operand, bool value) { Write(operand, Type::kPred, value); }
  uint64_t ReadSpecial(const Operand& operand) const;
  uint64_t ReadImmediate(const Operand& operand, Type type) const;
  Type RegisterType(const Operand& operand) const;
  uint8_t* Pointer(const Operand& operand, ptx::Space space, uint64_t bytes, uint64_t align) const;
  uint8_t* Translate(uint64_t address, ptx::Space space, uint64_t bytes, uint64_t align) const;
  ptx::Space SpaceOf(const Operand& operand, ptx::Space named) const;
  size_t OperandCount() const { return in_.operands.size(); }

  // one group a file; false if the opcode is not theirs
  bool Integer();
  bool IntegerArithmetic(Type type);
  bool Bitfield(Type type);
  bool Multiply(Type type);
  bool Carry(Type type);
  bool DotProduct();
  bool Logic();
  bool Video();  // but shifts, which are Logic's
  bool Floating();
  void FloatingScalar(Type type);
  void FloatingPacked(Type type);
  uint64_t FloatOp(Type type, uint64_t a, uint64_t b, uint64_t c);
  uint64_t Transcendental(Type type, uint64_t a);
  uint64_t SmallFloatOp(Type type, uint64_t a, uint64_t b, uint64_t c);
  uint64_t MixedOp(Type wide, Type narrow);
  bool Comparison();
  void Setp();
  void Set();
  bool CompareValues(Type type, uint64_t a, uint64_t b) const;
  bool Combine(bool result, size_t operand) const;
  bool Convert();
  uint64_t ConvertScalar(Type to, Type from, uint64_t bits);
  uint64_t ToInteger(Type to, double value, Round round) const;
  uint64_t FloatToFloat(Type to, Type from, uint64_t bits);
  void ConvertPacked(Type to, Type from);
  bool Memory();
  void Load();
  void Store();
  void AddressConversion();
  void CopyAsync();
  void Move();
  bool Asynchronous();
  Mbarrier& MbarrierAt(const Operand& operand, ptx::Space space);
  static void MoveOn(Mbarrier& object);
  void BytesHaveCome(const Operand& operand, ptx::Space space, int64_t bytes);
  void MbarrierArrive();
  void MbarrierOp();
  void CopyBulk();
  uint8_t* ClusterPointer(uint64_t address, uint64_t bytes) const;
  bool FindShared(uint64_t address, unsigned* rank) const;
  void ClusterAddress();
  void ClusterBarrier();
  bool Atomic();
  void AtomicAt(uint8_t* at, Type type, const Operand* dst, const Operand& b, const Operand* c);
  uint64_t AtomicResult(Type type, uint64_t old, uint64_t b, uint64_t c);
  bool Warp();
  static void MatrixMultiply(const std::vector<Core>& lanes);
  static void MoveMatrices(const std::vector<Core>& lanes);
  static void MoveByteMatrices(const std::vector<Core>& lanes);
  static void WarpMatrix(const std::vector<Core>& lanes);
  bool Control();
  void Branch();
  void Call();
  void Return();
  bool SystemCall(const ptx::Function& callee);
  void Exit();

  [[noreturn]] void Unsupported(const std::string& what = "") const;
  [[noreturn]] void Invalid(const std::string& what) const;

  Block& block_;
  Thread& thread_;
  const ptx::Instruction& in_;
  const ptx::Modifiers& mods_;
  bool jumped_ = false;  // the pc is set; Step leaves it alone
};

// Value helpers shared by the groups.
inline uint64_t MaskBits(uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((1ull << bits) - 1);
}
inline int64_t SignExtend(uint64_t value, unsigned bits) {
  if (bits >= 64) return static_cast<int64_t>(value);
  uint64_t sign = 1ull << (bits - 1);
  value = MaskBits(value, bits);
  return static_cast<int64_t>((value ^ sign) - sign);
}
// Formats printf as the device does; `arguments` is the packed argument buffer.
std::string FormatDevicePrintf(const char* format, const uint8_t* arguments);

}  // namespace farcall::cpu_device::ptx_interpreter
