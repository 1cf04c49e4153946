// SPDX-License-Identifier: Apache-2.0
// Names PTX fixes: opcodes, types, state spaces, special registers. The lists are X-macros so that
// name tables cannot drift from the enums.
#pragma once

#include <cstdint>
#include <string_view>

namespace farcall::cpu_device::ptx {

// First component of a mnemonic. An opcode equal to a C++ keyword or macro still reads kAnd, kOr,
// ...
// clang-format off
#define FARCALL_PTX_OPCODES(X) \
  X(Abs, "abs") \
  X(Activemask, "activemask") \
  X(Add, "add") \
  X(Addc, "addc") \
  X(Alloca, "alloca") \
  X(And, "and") \
  X(Applypriority, "applypriority") \
  X(Atom, "atom") \
  X(Bar, "bar") \
  X(Barrier, "barrier") \
  X(Bfe, "bfe") \
  X(Bfi, "bfi") \
  X(Bfind, "bfind") \
  X(Bmsk, "bmsk") \
  X(Bra, "bra") \
  X(Brev, "brev") \
  X(Brkpt, "brkpt") \
  X(Brx, "brx") \
  X(Call, "call") \
  X(Clz, "clz") \
  X(Clusterlaunchcontrol, "clusterlaunchcontrol") \
  X(Cnot, "cnot") \
  X(Copysign, "copysign") \
  X(Cos, "cos") \
  X(Cp, "cp") \
  X(Createpolicy, "createpolicy") \
  X(Cvt, "cvt") \
  X(Cvta, "cvta") \
  X(Discard, "discard") \
  X(Div, "div") \
  X(Dp2a, "dp2a") \
  X(Dp4a, "dp4a") \
  X(Elect, "elect") \
  X(Ex2, "ex2") \
  X(Exit, "exit") \
  X(Fence, "fence") \
  X(Fma, "fma") \
  X(Fns, "fns") \
  X(Getctarank, "getctarank") \
  X(Griddepcontrol, "griddepcontrol") \
  X(Isspacep, "isspacep") \
  X(Istypep, "istypep") \
  X(Ld, "ld") \
  X(Ldmatrix, "ldmatrix") \
  X(Ldu, "ldu") \
  X(Lg2, "lg2") \
  X(Lop3, "lop3") \
  X(Mad, "mad") \
  X(Mad24, "mad24") \
  X(Madc, "madc") \
  X(Mapa, "mapa") \
  X(Match, "match") \
  X(Max, "max") \
  X(Mbarrier, "mbarrier") \
  X(Membar, "membar") \
  X(Min, "min") \
  X(Mma, "mma") \
  X(Mov, "mov") \
  X(Movmatrix, "movmatrix") \
  X(Mul, "mul") \
  X(Mul24, "mul24") \
  X(Multimem, "multimem") \
  X(Nanosleep, "nanosleep") \
  X(Neg, "neg") \
  X(Not, "not") \
  X(Or, "or") \
  X(Pmevent, "pmevent") \
  X(Popc, "popc") \
  X(Prefetch, "prefetch") \
  X(Prefetchu, "prefetchu") \
  X(Prmt, "prmt") \
  X(Rcp, "rcp") \
  X(Red, "red") \
  X(Redux, "redux") \
  X(Rem, "rem") \
  X(Ret, "ret") \
  X(Rsqrt, "rsqrt") \
  X(Sad, "sad") \
  X(Selp, "selp") \
  X(Set, "set") \
  X(Setmaxnreg, "setmaxnreg") \
  X(Setp, "setp") \
  X(Shf, "shf") \
  X(Shfl, "shfl") \
  X(Shl, "shl") \
  X(Shr, "shr") \
  X(Sin, "sin") \
  X(Slct, "slct") \
  X(Sqrt, "sqrt") \
  X(St, "st") \
  X(Stackrestore, "stackrestore") \
  X(Stacksave, "stacksave") \
  X(Stmatrix, "stmatrix") \
  X(Sub, "sub") \
  X(Subc, "subc") \
  X(Suld, "suld") \
  X(Suq, "suq") \
  X(Sured, "sured") \
  X(Sust, "sust") \
  X(Szext, "szext") \
  X(Tanh, "tanh") \
  X(Tcgen05, "tcgen05") \
  X(Tensormap, "tensormap") \
  X(Testp, "testp") \
  X(Tex, "tex") \
  X(Tld4, "tld4") \
  X(Trap, "trap") \
  X(Txq, "txq") \
  X(Vabsdiff, "vabsdiff") \
  X(Vabsdiff2, "vabsdiff2") \
  X(Vabsdiff4, "vabsdiff4") \
  X(Vadd, "vadd") \
  X(Vadd2, "vadd2") \
  X(Vadd4, "vadd4") \
  X(Vavrg2, "vavrg2") \
  X(Vavrg4, "vavrg4") \
  X(Vmad, "vmad") \
  X(Vmax, "vmax") \
  X(Vmax2, "vmax2") \
  X(Vmax4, "vmax4") \
  X(Vmin, "vmin") \
  X(Vmin2, "vmin2") \
  X(Vmin4, "vmin4") \
  X(Vote, "vote") \
  X(Vset, "vset") \
  X(Vset2, "vset2") \
  X(Vset4, "vset4") \
  X(Vshl, "vshl") \
  X(Vshr, "vshr") \
  X(Vsub, "vsub") \
  X(Vsub2, "vsub2") \
  X(Vsub4, "vsub4") \
  X(Wgmma, "wgmma") \
  X(Wmma, "wmma") \
  X(Xor, "xor")
// clang-format on

enum class Opcode : uint8_t {
  kUnknown = 0,
#define X(id, text) k##id,
  FARCALL_PTX_OPCODES(X)
#undef X
};

// (id, text, bits). Packed types carry their whole width.
// clang-format off
#define FARCALL_PTX_TYPES(X) \
  X(U8, "u8", 8) \
  X(U16, "u16", 16) \
  X(U32, "u32", 32) \
  X(U64, "u64", 64) \
  X(S8, "s8", 8) \
  X(S16, "s16", 16) \
  X(S32, "s32", 32) \
  X(S64, "s64", 64) \
  X(B1, "b1", 1) \
  X(B8, "b8", 8) \
  X(B16, "b16", 16) \
  X(B32, "b32", 32) \
  X(B64, "b64", 64) \
  X(B128, "b128", 128) \
  X(F16, "f16", 16) \
  X(F16x2, "f16x2", 32) \
  X(Bf16, "bf16", 16) \
  X(Bf16x2, "bf16x2", 32) \
  X(Tf32, "tf32", 32) \
  X(F32, "f32", 32) \
  X(F32x2, "f32x2", 64) \
  X(F64, "f64", 64) \
  X(Pred, "pred", 1) \
  X(U4, "u4", 4) \
  X(S4, "s4", 4) \
  X(U16x2, "u16x2", 32) \
  X(S16x2, "s16x2", 32) \
  X(U8x4, "u8x4", 32) \
  X(S8x4, "s8x4", 32) \
  X(E4m3, "e4m3", 8) \
  X(E5m2, "e5m2", 8) \
  X(E4m3x2, "e4m3x2", 16) \
  X(E5m2x2, "e5m2x2", 16) \
  X(E4m3x4, "e4m3x4", 32) \
  X(E5m2x4, "e5m2x4", 32) \
  X(E2m1, "e2m1", 4) \
  X(E2m3, "e2m3", 6) \
  X(E3m2, "e3m2", 6) \
  X(E2m1x2, "e2m1x2", 8) \
  X(E2m3x2, "e2m3x2", 16) \
  X(E3m2x2, "e3m2x2", 16) \
  X(E2m1x4, "e2m1x4", 16) \
  X(E2m3x4, "e2m3x4", 32) \
  X(E3m2x4, "e3m2x4", 32) \
  X(Ue8m0, "ue8m0", 8) \
  X(Ue8m0x2, "ue8m0x2", 16) \
  X(Ue4m3, "ue4m3", 8) \
  X(Texref, "texref", 64) \
  X(Samplerref, "samplerref", 64) \
  X(Surfref, "surfref", 64)
// clang-format on

enum class Type : uint8_t {
  kNone = 0,
#define X(id, text, bits) k##id,
  FARCALL_PTX_TYPES(X)
#undef X
};

enum class Space : uint8_t {
  kNone = 0,  // generic addressing
  kReg,
  kConst,
  kGlobal,
  kLocal,
  kParam,          // .param as written; an entry's parameters or a call's, by the variable it names
  kParamEntry,     // .param::entry
  kParamFunc,      // .param::func
  kShared,         // .shared and .shared::cta
  kSharedCluster,  // .shared::cluster
  kTex,
};

// One per component: %tid.x is kTidX. `%envregN`, `%pmN` keep N in Operand::value.
// clang-format off
#define FARCALL_PTX_SPECIAL_REGISTERS(X) \
  X(TidX, "%tid.x", U32) \
  X(TidY, "%tid.y", U32) \
  X(TidZ, "%tid.z", U32) \
  X(TidW, "%tid.w", U32) \
  X(NtidX, "%ntid.x", U32) \
  X(NtidY, "%ntid.y", U32) \
  X(NtidZ, "%ntid.z", U32) \
  X(NtidW, "%ntid.w", U32) \
  X(CtaidX, "%ctaid.x", U32) \
  X(CtaidY, "%ctaid.y", U32) \
  X(CtaidZ, "%ctaid.z", U32) \
  X(CtaidW, "%ctaid.w", U32) \
  X(NctaidX, "%nctaid.x", U32) \
  X(NctaidY, "%nctaid.y", U32) \
  X(NctaidZ, "%nctaid.z", U32) \
  X(NctaidW, "%nctaid.w", U32) \
  X(Laneid, "%laneid", U32) \
  X(Warpid, "%warpid", U32) \
  X(Nwarpid, "%nwarpid", U32) \
  X(Smid, "%smid", U32) \
  X(Nsmid, "%nsmid", U32) \
  X(Gridid, "%gridid", U64) \
  X(IsExplicitCluster, "%is_explicit_cluster", Pred) \
  X(ClusteridX, "%clusterid.x", U32) \
  X(ClusteridY, "%clusterid.y", U32) \
  X(ClusteridZ, "%clusterid.z", U32) \
  X(ClusteridW, "%clusterid.w", U32) \
  X(NclusteridX, "%nclusterid.x", U32) \
  X(NclusteridY, "%nclusterid.y", U32) \
  X(NclusteridZ, "%nclusterid.z", U32) \
  X(NclusteridW, "%nclusterid.w", U32) \
  X(ClusterCtaidX, "%cluster_ctaid.x", U32) \
  X(ClusterCtaidY, "%cluster_ctaid.y", U32) \
  X(ClusterCtaidZ, "%cluster_ctaid.z", U32) \
  X(ClusterCtaidW, "%cluster_ctaid.w", U32) \
  X(ClusterNctaidX, "%cluster_nctaid.x", U32) \
  X(ClusterNctaidY, "%cluster_nctaid.y", U32) \
  X(ClusterNctaidZ, "%cluster_nctaid.z", U32) \
  X(ClusterNctaidW, "%cluster_nctaid.w", U32) \
  X(ClusterCtarank, "%cluster_ctarank", U32) \
  X(ClusterNctarank, "%cluster_nctarank", U32) \
  X(LanemaskEq, "%lanemask_eq", U32) \
  X(LanemaskLe, "%lanemask_le", U32) \
  X(LanemaskLt, "%lanemask_lt", U32) \
  X(LanemaskGe, "%lanemask_ge", U32) \
  X(LanemaskGt, "%lanemask_gt", U32) \
  X(Clock, "%clock", U32) \
  X(ClockHi, "%clock_hi", U32) \
  X(Clock64, "%clock64", U64) \
  X(Globaltimer, "%globaltimer", U64) \
  X(GlobaltimerLo, "%globaltimer_lo", U32) \
  X(GlobaltimerHi, "%globaltimer_hi", U32) \
  X(TotalSmemSize, "%total_smem_size", U32) \
  X(AggrSmemSize, "%aggr_smem_size", U32) \
  X(DynamicSmemSize, "%dynamic_smem_size", U32) \
  X(CurrentGraphExec, "%current_graph_exec", U64) \
  X(ReservedSmemOffsetBegin, "%reserved_smem_offset_begin", B32) \
  X(ReservedSmemOffsetEnd, "%reserved_smem_offset_end", B32) \
  X(ReservedSmemOffsetCap, "%reserved_smem_offset_cap", B32) \
  X(ReservedSmemOffset0, "%reserved_smem_offset_0", B32) \
  X(ReservedSmemOffset1, "%reserved_smem_offset_1", B32) \
  X(Envreg, "%envreg", B32) \
  X(Pm, "%pm", U32) \
  X(Pm64, "%pm64", U64)
// clang-format on

enum class SpecialRegister : uint8_t {
  kNone = 0,
#define X(id, text, type) k##id,
  FARCALL_PTX_SPECIAL_REGISTERS(X)
#undef X
};

std::string_view Name(Opcode opcode);
std::string_view Name(Type type);            // "f32", no dot
std::string_view Name(Space space);          // "shared", no dot; "" for kNone
std::string_view Name(SpecialRegister reg);  // "%tid.x"
Type TypeOf(SpecialRegister reg);

unsigned BitsOf(Type type);
inline unsigned BytesOf(Type type) {
  return (BitsOf(type) + 7) / 8;
}
bool IsSigned(Type type);    // s8..s64
bool IsUnsigned(Type type);  // u8..u64
bool IsInteger(Type type);   // both of the above and b8..b128
bool IsFloat(Type type);     // f16, bf16, tf32, f32, f64 and packed floats
bool IsPacked(Type type);    // two or more lanes in one register: f16x2, u16x2, ...

}  // namespace farcall::cpu_device::ptx
