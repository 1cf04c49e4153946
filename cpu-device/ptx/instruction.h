// SPDX-License-Identifier: Apache-2.0
// One parsed PTX instruction: opcode, typed modifiers, guard, operands.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cpu-device/ptx/opcode.h"

namespace farcall::cpu_device::ptx {

struct Function;
struct Variable;

using RegisterId = uint32_t;  // dense per function: index into Function::registers
inline constexpr RegisterId kNoRegister = ~0u;
inline constexpr uint32_t kNoIndex = ~0u;

enum class Rounding : uint8_t { kNone, kRn, kRz, kRm, kRp, kRna, kRs, kRni, kRzi, kRmi, kRpi };
enum class Compare : uint8_t {
  kNone,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLo,
  kLs,
  kHi,
  kHs,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};
enum class BoolOp : uint8_t { kNone, kAnd, kOr, kXor };
enum class MulMode : uint8_t { kNone, kLo, kHi, kWide };
enum class CacheOp : uint8_t { kNone, kCa, kCg, kCs, kLu, kCv, kWb, kWt };
enum class Semantics : uint8_t {
  kNone,
  kWeak,
  kVolatile,
  kRelaxed,
  kAcquire,
  kRelease,
  kAcqRel,
  kSc,
  kMmio,
};
enum class Scope : uint8_t { kNone, kCta, kCluster, kGpu, kSys };  // membar.gl is kGpu
// Operation of atom, red, redux, multimem, cp.reduce, sured.
enum class AtomicOp : uint8_t {
  kNone,
  kAdd,
  kMin,
  kMax,
  kInc,
  kDec,
  kCas,
  kExch,
  kAnd,
  kOr,
  kXor,
  kPopc,
};
enum class ShuffleMode : uint8_t { kNone, kUp, kDown, kBfly, kIdx };
enum class VoteMode : uint8_t { kNone, kAll, kAny, kUni, kBallot };  // also match.any, match.all
enum class PermuteMode : uint8_t { kNone, kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };
enum class ShiftMode : uint8_t { kNone, kWrap, kClamp };  // shf, szext, bmsk
enum class TestOp : uint8_t {
  kNone,
  kFinite,
  kInfinite,
  kNumber,
  kNotanumber,
  kNormal,
  kSubnormal,
};
enum class BarrierOp : uint8_t { kNone, kSync, kArrive, kRed, kWait, kWarpSync };
enum class Geometry : uint8_t { kNone, k1d, k2d, k3d, kA1d, kA2d, kCube, kAcube, k2dms, kA2dms };
enum class Layout : uint8_t { kNone, kRow, kCol };
enum class MatrixOp : uint8_t { kNone, kLoadA, kLoadB, kLoadC, kStoreD, kMma };  // wmma

// Modifiers with a meaning common to several opcodes, in typed form. What is not here is found with
// Instruction::Has.
struct Modifiers {
  Type types[5] = {};  // in written order: cvt.rn.f32.s32 is {F32, S32}; mma has 4
  uint8_t type_count = 0;
  Space space = Space::kNone;   // ld, st, atom, cvta, isspacep...; first of two in cp.async
  Space space2 = Space::kNone;  // source space of cp.async.*.shared.global
  Rounding rounding = Rounding::kNone;
  Compare compare = Compare::kNone;
  BoolOp bool_op = BoolOp::kNone;
  MulMode mul_mode = MulMode::kNone;  // mul, mad, madc, mul24; dp2a's .lo/.hi
  uint8_t vector = 1;                 // .v2 .v4 .v8
  CacheOp cache = CacheOp::kNone;
  Semantics semantics = Semantics::kNone;
  Scope scope = Scope::kNone;
  AtomicOp atomic = AtomicOp::kNone;
  ShuffleMode shuffle = ShuffleMode::kNone;
  VoteMode vote = VoteMode::kNone;
  PermuteMode permute = PermuteMode::kNone;
  ShiftMode shift_mode = ShiftMode::kNone;
  TestOp test = TestOp::kNone;
  BarrierOp barrier = BarrierOp::kNone;  // bar, barrier (also barrier.cluster)
  Geometry geometry = Geometry::kNone;
  Layout layout_a = Layout::kNone;  // first of .row/.col; the only one of wmma.load/store
  Layout layout_b = Layout::kNone;
  MatrixOp matrix_op = MatrixOp::kNone;
  uint16_t m = 0, n = 0, k = 0;  // .m16n8k16; ldmatrix .m8n8 has k = 0
  uint8_t matrix_count = 0;      // ldmatrix/stmatrix .x1 .x2 .x4
  bool ftz = false, sat = false, satfinite = false, relu = false, nan = false;
  bool approx = false, full = false, abs = false, xorsign_abs = false, noftz = false;
  bool cc = false;                               // carry out: add.cc
  bool to = false;                               // cvta.to
  bool shift_left = false, shift_right = false;  // shf.l, shf.r
  bool shiftamt = false;                         // bfind
  bool nc = false;                               // ld.global.nc
  bool uni = false, sync = false, aligned = false, trans = false;
  bool cluster = false;  // barrier.cluster
  bool async = false;    // cp.async, st.async, red.async
};

struct Operand {
  enum class Kind : uint8_t {
    kNone,
    kRegister,   // reg; `negated` for !%p
    kInteger,    // value: 64-bit two's complement
    kFloat,      // value: IEEE bits; float_type F32 (0f...) or F64 (0d..., 1.5)
    kVector,     // elements: {a, b, ...}
    kAddress,    // [base + value]; base = reg, or variable/function, or neither (absolute);
                 // elements: what follows a comma inside the brackets (tex coordinates, tensor map
                 // indices)
    kSymbol,     // address of variable/function + value (mov, call)
    kLabel,      // value: instruction index
    kTable,      // brx.idx's targets, call's targets: value = index into Function::branch_targets /
                 // call_targets
    kPrototype,  // value = index into Function::prototypes
    kSpecialRegister,  // special; value = N of %envregN
    kSink,             // _
    kList,             // parenthesised call arguments: elements
    kString,           // text
  };
  Kind kind = Kind::kNone;
  bool negated = false;
  Type float_type = Type::kNone;
  SpecialRegister special = SpecialRegister::kNone;
  RegisterId reg = kNoRegister;
  int64_t value = 0;
  const Variable* variable = nullptr;  // resolved symbol
  const Function* function = nullptr;
  std::vector<Operand> elements;

  bool Is(Kind k) const { return kind == k; }
};

struct Instruction {
  Opcode opcode = Opcode::kUnknown;
  bool guard_negated = false;
  RegisterId guard = kNoRegister;  // @%p, @!%p
  Modifiers mods;
  std::string_view mnemonic;  // whole, as written: "ld.global.nc.v4.f32"; points into Module::text
  // In written order, destination first. call: operands[0] return list (empty kList if none), [1]
  // callee (kSymbol or kRegister), [2] argument list (maybe empty), [3] kPrototype / kTable if
  // given.
  std::vector<Operand> operands;
  Operand second_dst;       // q of `p|q` in the first operand: setp, shfl, match, elect, lop3
  uint32_t line = 0;        // of the PTX text, 1-based
  uint32_t loc = kNoIndex;  // index into Function::locations

  bool Is(Opcode op) const { return opcode == op; }
  // True if `modifier` (no dot, e.g. "L2::128B" or "noinc") stands in the mnemonic.
  bool Has(std::string_view modifier) const;
  // The i-th dot-separated part; 0 is the opcode. Empty when past the end.
  std::string_view Part(unsigned i) const;
  Type type() const { return mods.types[0]; }
  Type type(unsigned i) const { return mods.types[i]; }
};

}  // namespace farcall::cpu_device::ptx
