// SPDX-License-Identifier: Apache-2.0
// What a CUtensorMap of ours holds: written by cuTensorMapEncode*, read by compiled code's copies
// by tensor map. The layout is our own, as NVIDIA's is: programs only carry it around.
//   Source  CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors"
#pragma once

#include <cstdint>

#include "cpu-device/exec/runtime.h"

namespace farcall::cpu_device {

inline constexpr uint64_t kTensorMapMark = 0x70614d5979724467;
inline constexpr uint32_t kMaxTensorRank = 5;

enum class TensorFill : uint8_t { kZero, kNan };

struct TensorMap {
  uint64_t mark = kTensorMapMark, address = 0;
  uint64_t dims[kMaxTensorRank] = {};         // elements, the innermost first
  uint64_t strides[kMaxTensorRank - 1] = {};  // bytes, of the dimensions but the innermost
  uint16_t box[kMaxTensorRank] = {};          // im2col: channels, pixels
  uint8_t steps[kMaxTensorRank] = {};
  uint8_t rank = 0;
  uint8_t type = 0, interleave = 0, swizzle = 0, promotion = 0;  // CUtensorMap*'s numbers
  uint8_t element_bytes = 0;  // 0: parts of bytes, which no code here copies
  TensorFill fill = TensorFill::kZero;
  uint8_t is_im2col = 0;
  int16_t corners[6] = {};  // im2col: lower, upper
};
static_assert(sizeof(TensorMap) <= 128);

// fc_rt_tensor_copy's `what`: the rank, and these. An ABI: kCodegenVersion changes with it.
enum TensorCopy : uint32_t {
  kTensorRankMask = 7,
  kTensorStore = 1u << 3,     // from shared memory into the tensor
  kTensorAnyBlock = 1u << 4,  // shared::cluster
  kTensorReduceShift = 8,     // a TensorReduce: a store that combines
};
enum class TensorReduce : uint32_t { kNone, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

// tensormap.replace's fields, for fc_rt_tensormap_replace; numbers of ours.
enum class TensorField : uint32_t {
  kAddress,
  kRank,
  kBox,
  kDim,
  kStride,
  kStep,
  kType,
  kInterleave,
  kSwizzle,
  kFill,
};

// Combines one element of a tensor of `type` (CUtensorMapDataType) with another, atomically.
//   Errors  the text, if such elements have no such operation
const char* ReduceTensorElement(uint32_t type, TensorReduce reduce, uint8_t* there,
                                const uint8_t* here);

const RuntimeSymbol* TensorSymbols(unsigned* count);

}  // namespace farcall::cpu_device
