// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/base/kernels.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "client-shim/nccl/base/driver.h"
#include "client-shim/nccl/base/error.h"

namespace farcall::nccl {

namespace {

constexpr unsigned kThreads = 256, kMaxBlocks = 256;

// How a type is read, computed and written. `in` turns %raw into %x (or %y), `out` turns %x into
// %raw.
struct TypePtx {
  size_t bytes;
  const char* memory;    // of ld and st
  const char* raw;       // register class of the raw value
  const char* computed;  // register class, and suffix of the arithmetic
  const char* suffix;
  const char* round;  // of mul and div: "" or ".rn", ".lo" for integers
};

const TypePtx* Find(ncclDataType_t type) {
  static constexpr TypePtx kTypes[] = {
      {1, "s8", "b32", "b32", "s32", ".lo"},   // ncclInt8
      {1, "u8", "b32", "b32", "u32", ".lo"},   // ncclUint8
      {4, "s32", "b32", "b32", "s32", ".lo"},  // ncclInt32
      {4, "u32", "b32", "b32", "u32", ".lo"},  // ncclUint32
      {8, "s64", "b64", "b64", "s64", ".lo"},  // ncclInt64
      {8, "u64", "b64", "b64", "u64", ".lo"},  // ncclUint64
      {2, "b16", "b16", "f32", "f32", ".rn"},  // ncclFloat16
      {4, "f32", "f32", "f32", "f32", ".rn"},  // ncclFloat32
      {8, "f64", "f64", "f64", "f64", ".rn"},  // ncclFloat64
      {2, "b16", "b16", "f32", "f32", ".rn"},  // ncclBfloat16
  };
  int index = static_cast<int>(type);
  return index >= 0 && index < static_cast<int>(std::size(kTypes)) ? &kTypes[index] : nullptr;
}

bool IsFloat(const TypePtx& type) {
  return type.round[1] == 'r';
}

std::string Join(std::initializer_list<std::string_view> parts) {
  std::string joined;
  for (std::string_view part : parts) joined += part;
  return joined;
}

// `to` from raw register `raw`.
std::string In(ncclDataType_t type, std::string_view to, std::string_view raw) {
  if (type == ncclFloat16) return Join({"  cvt.f32.f16 ", to, ", ", raw, ";\n"});
  // A bfloat16 is the upper half of a float.
  if (type == ncclBfloat16)
    return Join({"  mov.b32 %wide, {%zero, ", raw, "};\n  mov.b32 ", to, ", %wide;\n"});
  return Join({"  mov.", Find(type)->computed, " ", to, ", ", raw, ";\n"});
}

std::string Out(ncclDataType_t type) {
  if (type == ncclFloat16) return "  cvt.rn.f16.f32 %raw, %x;\n";
  if (type == ncclBfloat16) return "  cvt.rn.bf16.f32 %raw, %x;\n";
  return Join({"  mov.", Find(type)->raw, " %raw, %x;\n"});
}

std::string Compute(const TypePtx& type, Arithmetic arithmetic) {
  const std::string_view rounded = IsFloat(type) ? ".rn" : "";
  std::string_view name, mode;
  switch (arithmetic) {
    case Arithmetic::kSum:
      name = "add", mode = rounded;
      break;
    case Arithmetic::kProd:
    case Arithmetic::kScale:
      name = "mul", mode = type.round;
      break;
    case Arithmetic::kMax:
      name = "max";
      break;
    case Arithmetic::kMin:
      name = "min";
      break;
    case Arithmetic::kDivide:
      name = "div", mode = rounded;
      break;
  }
  return Join({"  ", name, mode, ".", type.suffix, " %x, %x, %y;\n"});
}

// %y from the launch's parameter, the same for all elements.
std::string Divisor(const TypePtx& type) {
  if (IsFloat(type)) return Join({"  cvt.rn.", type.suffix, ".u64 %y, %b;\n"});
  return type.bytes == 8 ? "  mov.b64 %y, %b;\n" : "  cvt.u32.u64 %y, %b;\n";
}

std::string Load(ncclDataType_t type, std::string_view address, std::string_view to) {
  return Join(
      {"  ld.global.", Find(type)->memory, " %raw, [", address, "];\n", In(type, to, "%raw")});
}

}  // namespace

size_t ElementBytes(ncclDataType_t type) {
  const TypePtx* found = Find(type);
  return found == nullptr ? 0 : found->bytes;
}

std::string ReductionPtx(ncclDataType_t type, Arithmetic arithmetic) {
  const TypePtx& ptx = *Find(type);
  const std::string bytes = std::to_string(ptx.bytes);
  const bool pairs = arithmetic != Arithmetic::kDivide && arithmetic != Arithmetic::kScale;
  std::string text =
      ".version 7.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry reduce(.param .u64 p_dst, .param .u64 p_a, .param .u64 p_b, .param .u64 "
      "p_count)\n{\n"
      "  .reg .pred %done;\n  .reg .b16 %zero;\n  .reg .b32 %block, %size, %thread, %blocks, "
      "%wide;\n"
      "  .reg .b64 %dst, %a, %b, %count, %i, %step, %offset, %at;\n";
  text += Join({"  .reg .", ptx.raw, " %raw;\n  .reg .", ptx.computed, " %x, %y;\n"});
  text +=
      "  ld.param.u64 %dst, [p_dst];\n  ld.param.u64 %a, [p_a];\n  ld.param.u64 %b, [p_b];\n"
      "  ld.param.u64 %count, [p_count];\n  mov.b16 %zero, 0;\n"
      "  mov.u32 %block, %ctaid.x;\n  mov.u32 %size, %ntid.x;\n  mov.u32 %thread, %tid.x;\n"
      "  mov.u32 %blocks, %nctaid.x;\n  cvt.u64.u32 %i, %thread;\n  mul.wide.u32 %offset, %block, "
      "%size;\n"
      "  add.u64 %i, %i, %offset;\n  mul.wide.u32 %step, %blocks, %size;\n";
  if (arithmetic == Arithmetic::kDivide) text += Divisor(ptx);
  if (arithmetic == Arithmetic::kScale) text += Load(type, "%b", "%y");
  text += Join(
      {"next:\n  setp.ge.u64 %done, %i, %count;\n  @%done bra end;\n  mul.lo.u64 %offset, %i, ",
       bytes, ";\n  add.u64 %at, %a, %offset;\n", Load(type, "%at", "%x")});
  if (pairs) text += Join({"  add.u64 %at, %b, %offset;\n", Load(type, "%at", "%y")});
  text += Compute(ptx, arithmetic);
  text += Out(type);
  text += Join({"  add.u64 %at, %dst, %offset;\n  st.global.", ptx.bytes == 1 ? "u8" : ptx.memory,
                " [%at], %raw;\n"});
  return Join({text, "  add.u64 %i, %i, %step;\n  bra next;\nend:\n  ret;\n}\n"});
}

Kernels::~Kernels() {
  for (const auto& [key, loaded] : loaded_) FindDriver()->cuModuleUnload(loaded.module);
}

ncclResult_t Kernels::Prepare(CUstream stream, ncclDataType_t type, Arithmetic arithmetic,
                              uint64_t b) {
  FARCALL_NCCL_CUDA(cuStreamSynchronize, stream);
  Loaded loaded = {};
  FARCALL_NCCL_CUDA(cuModuleLoadData, &loaded.module, ReductionPtx(type, arithmetic).c_str());
  if (CUresult found = FindDriver()->cuModuleGetFunction(&loaded.function, loaded.module, "reduce");
      found != CUDA_SUCCESS) {
    FindDriver()->cuModuleUnload(loaded.module);
    return CudaFailure("cuModuleGetFunction", found);
  }
  loaded_.emplace(KeyOf(type, arithmetic), loaded);
  return Launch(loaded.function, stream, 0, 0, b,
                0);  // where kernels are loaded at their first use
}

ncclResult_t Kernels::Enqueue(CUstream stream, ncclDataType_t type, Arithmetic arithmetic,
                              CUdeviceptr dst, CUdeviceptr a, uint64_t b, uint64_t count) {
  if (count == 0) return ncclSuccess;
  const auto found = loaded_.find(KeyOf(type, arithmetic));
  if (found == loaded_.end()) return Fail(ncclInternalError, "a kernel was not prepared");
  return Launch(found->second.function, stream, dst, a, b, count);
}

ncclResult_t Kernels::Launch(CUfunction function, CUstream stream, CUdeviceptr dst, CUdeviceptr a,
                             uint64_t b, uint64_t count) {
  void* parameters[] = {&dst, &a, &b, &count};
  const auto blocks =
      static_cast<unsigned>(std::clamp<uint64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks));
  FARCALL_NCCL_CUDA(cuLaunchKernel, function, blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters,
                    nullptr);
  return ncclSuccess;
}

}  // namespace farcall::nccl
