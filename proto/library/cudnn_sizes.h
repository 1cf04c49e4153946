// SPDX-License-Identifier: Apache-2.0
// How large things are that cuDNN's calls point to: both sides must agree.
#pragma once

#include <cstdint>

#include "proto/library/library_sizes.h"

namespace farcall::thin {

inline constexpr uint64_t kCudnnMostElementBytes = 32;

// cudnnDataType_t: of one element; 0: unknown, or smaller than a byte.
constexpr uint64_t CudnnTypeBytes(int type) {
  switch (type) {
    case 3:   // INT8
    case 6:   // UINT8
    case 11:  // BOOLEAN
    case 12:  // FP8_E4M3
    case 13:  // FP8_E5M2
    case 15:  // FP8_E8M0
      return 1;
    case 2:  // HALF
    case 9:  // BFLOAT16
      return 2;
    case 0:   // FLOAT
    case 4:   // INT32
    case 5:   // INT8x4
    case 7:   // UINT8x4
    case 14:  // FAST_FLOAT_FOR_FP8
    case 19:  // UINT32
      return 4;
    case 1:   // DOUBLE
    case 10:  // INT64
    case 20:  // COMPLEX_FP32
      return 8;
    case 21:  // COMPLEX_FP64
      return 16;
    case 8:  // INT8x32
      return kCudnnMostElementBytes;
    default:
      return 0;
  }
}

// Of an array of dimensions: none for a number that the library refuses without looking.
constexpr uint64_t DimCount(int64_t dimensions) {
  constexpr int64_t kMaxDimensions = 8;
  return dimensions > 0 && dimensions <= kMaxDimensions ? static_cast<uint64_t>(dimensions) : 0;
}

// Of the dimensions after the first two.
constexpr uint64_t SpatialCount(int64_t dimensions) {
  return DimCount(dimensions) < 2 ? 0 : DimCount(dimensions) - 2;
}

// Of an array with as many entries as a program says.
constexpr uint64_t CountOf(int count) {
  constexpr int kMax = 1 << 12;
  return count <= 0 ? 0 : static_cast<uint64_t>(count < kMax ? count : kMax);
}

// Of labels, by the lengths of their runs.
inline uint64_t SumOf(const int* lengths, int count) {
  constexpr int kMax = 1 << 18;  // more fit no record: the call is refused
  if (count > kMax) return ~uint64_t{0};
  uint64_t sum = 0;
  for (int i = 0; lengths != nullptr && i < count; ++i)
    if (lengths[i] > 0) sum += static_cast<uint64_t>(lengths[i]);
  return sum;
}

}  // namespace farcall::thin
