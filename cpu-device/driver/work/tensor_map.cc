// SPDX-License-Identifier: Apache-2.0
// Descriptors of tensors for TMA: checked as CUDA's documentation has it, then what the copies of
// exec/runtime_tensor.cc read.
#include "cpu-device/exec/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

// What all kinds of descriptors have.
struct Tensor {
  CUtensorMap* map;
  CUtensorMapDataType type;
  uint32_t rank;
  void* address;
  const cuuint64_t* dims;
  const cuuint64_t* strides;
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;

  bool is_packed_16() const {
    return type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B ||
           type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  }
};

uint64_t ElementBits(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 16;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 64;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B:  // with their gaps
    case CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B:
      return 8;
    default:
      return 32;
  }
}

bool IsFloat(CUtensorMapDataType type) {
  return (type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_FLOAT64) ||
         (type >= CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
}

uint64_t SwizzleBytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return UINT64_MAX;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    default:
      return 128;
  }
}

bool ValidKinds(const Tensor& t) {
  if (t.type < 0 || t.type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B || t.interleave < 0 ||
      t.interleave > CU_TENSOR_MAP_INTERLEAVE_32B || t.swizzle < 0 ||
      t.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B || t.promotion < 0 ||
      t.promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B || t.fill < 0 ||
      t.fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return false;
  if (t.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !IsFloat(t.type)) return false;
  if (t.interleave == CU_TENSOR_MAP_INTERLEAVE_32B && t.swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
    return false;
  return t.type != CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B ||
         t.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
}

bool ValidExtents(const Tensor& t) {
  const bool wide = t.interleave == CU_TENSOR_MAP_INTERLEAVE_32B || t.is_packed_16();
  const uint64_t align = wide ? 32 : 16;
  if (reinterpret_cast<uint64_t>(t.address) % align != 0) return false;
  for (uint32_t i = 0; i < t.rank; ++i) {
    if (t.dims[i] == 0 || t.dims[i] > (1ull << 32)) return false;
    const bool ignored = i == 0 && t.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    if (!ignored && (t.steps[i] == 0 || t.steps[i] > 8)) return false;
    if (i + 1 < t.rank && (t.strides[i] % align != 0 || t.strides[i] >= (1ull << 40))) return false;
  }
  if (t.is_packed_16() && t.dims[0] % 128 != 0) return false;
  return t.type != CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B || t.dims[0] % 2 == 0;
}

// `inner` elements lie side by side in shared memory.
bool ValidInner(const Tensor& t, uint64_t inner) {
  if (t.is_packed_16() && inner != 128) return false;
  const uint64_t bytes = inner * ElementBits(t.type) / 8;
  return t.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || bytes <= SwizzleBytes(t.swizzle);
}

CUresult Check(const Tensor& t, uint32_t least_rank) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (TheDriver().profile.cc_major < 9) return CUDA_ERROR_NOT_SUPPORTED;
  if (t.map == nullptr || reinterpret_cast<uint64_t>(t.map) % 64 != 0 || t.address == nullptr ||
      t.dims == nullptr || t.steps == nullptr || (t.rank > 1 && t.strides == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  if (t.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) least_rank = std::max(least_rank, 3u);
  if (t.rank < least_rank || t.rank > 5) return CUDA_ERROR_INVALID_VALUE;
  return ValidKinds(t) && ValidExtents(t) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// What is left of the fields is the kind's own.
TensorMap MapOf(const Tensor& t) {
  TensorMap map;
  map.address = reinterpret_cast<uint64_t>(t.address);
  for (uint32_t i = 0; i < std::min<uint32_t>(t.rank, kMaxTensorRank); ++i) {
    map.dims[i] = t.dims[i];
    map.steps[i] = static_cast<uint8_t>(t.steps[i]);
    if (i != 0) map.strides[i - 1] = t.strides[i - 1];
  }
  map.rank = static_cast<uint8_t>(t.rank);
  map.type = static_cast<uint8_t>(t.type);
  map.interleave = static_cast<uint8_t>(t.interleave);
  map.swizzle = static_cast<uint8_t>(t.swizzle);
  map.promotion = static_cast<uint8_t>(t.promotion);
  const bool is_part = t.is_packed_16() || t.type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  map.element_bytes = is_part ? 0 : static_cast<uint8_t>(ElementBits(t.type) / 8);
  map.fill = t.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ? TensorFill::kZero : TensorFill::kNan;
  return map;
}

void Write(const TensorMap& map, CUtensorMap* to) {
  memset(to, 0, sizeof(*to));
  memcpy(to, &map, sizeof(map));
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const Tensor tensor{map,   type,       rank,    address,   dims, strides,
                      steps, interleave, swizzle, promotion, fill};
  if (const CUresult result = Check(tensor, 1)) return result;
  if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < rank; ++i)
    if (box[i] == 0 || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t inner_bytes = box[0] * ElementBits(type) / 8;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && inner_bytes % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ValidInner(tensor, box[0])) return CUDA_ERROR_INVALID_VALUE;
  TensorMap made = MapOf(tensor);
  for (uint32_t i = 0; i < rank; ++i) made.box[i] = static_cast<uint16_t>(box[i]);
  Write(made, map);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const Tensor tensor{map,   type,       rank,    address,   dims, strides,
                      steps, interleave, swizzle, promotion, fill};
  if (const CUresult result = Check(tensor, 3)) return result;
  if (lower == nullptr || upper == nullptr || channels > 256 || pixels > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  const int most = rank == 3 ? 32767 : rank == 4 ? 127 : 15;
  for (uint32_t i = 0; i + 2 < rank; ++i)
    if (lower[i] < -most - 1 || lower[i] > most || upper[i] < -most - 1 || upper[i] > most)
      return CUDA_ERROR_INVALID_VALUE;
  if (!ValidInner(tensor, channels)) return CUDA_ERROR_INVALID_VALUE;
  TensorMap made = MapOf(tensor);
  made.is_im2col = 1;
  made.box[0] = static_cast<uint16_t>(channels);
  made.box[1] = static_cast<uint16_t>(pixels);
  for (uint32_t i = 0; i + 2 < rank; ++i) {
    made.corners[i] = static_cast<int16_t>(lower[i]);
    made.corners[3 + i] = static_cast<int16_t>(upper[i]);
  }
  Write(made, map);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (map == nullptr || address == nullptr || reinterpret_cast<uint64_t>(map) % 64 != 0 ||
      reinterpret_cast<uint64_t>(address) % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap changed;
  memcpy(static_cast<void*>(&changed), map, sizeof(changed));
  if (changed.mark != kTensorMapMark) return CUDA_ERROR_INVALID_VALUE;
  changed.address = reinterpret_cast<uint64_t>(address);
  Write(changed, map);
  return CUDA_SUCCESS;
}

}  // extern "C"
