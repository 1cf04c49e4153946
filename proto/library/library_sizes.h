// SPDX-License-Identifier: Apache-2.0
// How large things are that a library's call points to: both sides must agree.
#pragma once

#include <cstdint>

namespace farcall::thin {

// Saturates: what is too large is refused as such. A negative count is none.
template <typename Count>
constexpr uint64_t Times(Count count, uint64_t bytes) {
  if constexpr (static_cast<Count>(-1) < static_cast<Count>(0)) {
    if (count < 0) return 0;
  }
  auto wide = static_cast<uint64_t>(count);
  return bytes != 0 && wide > ~uint64_t{0} / bytes ? ~uint64_t{0} : wide * bytes;
}

// cudaDataType_t: of one element; 0: unknown, or smaller than a byte.
constexpr uint64_t DataTypeBytes(int type) {
  switch (type) {
    case 3:   // R_8I
    case 8:   // R_8U
    case 28:  // R_8F_E4M3
    case 29:  // R_8F_E5M2
    case 30:  // R_8F_UE8M0
      return 1;
    case 2:   // R_16F
    case 14:  // R_16BF
    case 20:  // R_16I
    case 22:  // R_16U
    case 7:   // C_8I
    case 9:   // C_8U
      return 2;
    case 0:   // R_32F
    case 6:   // C_16F
    case 15:  // C_16BF
    case 10:  // R_32I
    case 12:  // R_32U
    case 21:  // C_16I
    case 23:  // C_16U
      return 4;
    case 1:   // R_64F
    case 4:   // C_32F
    case 24:  // R_64I
    case 26:  // R_64U
    case 11:  // C_32I
    case 13:  // C_32U
      return 8;
    case 5:   // C_64F
    case 25:  // C_64I
    case 27:  // C_64U
      return 16;
    default:
      return 0;
  }
}

constexpr bool IsComplexType(int type) {
  return type == 4 || type == 5 || type == 6 || type == 7 || type == 9 || type == 11 ||
         type == 13 || type == 15 || type == 21 || type == 23 || type == 25 || type == 27;
}

// cublasComputeType_t: of alpha and beta, for a result of that type.
constexpr uint64_t ScaleBytes(int compute, int result) {
  uint64_t real = 0;
  switch (compute) {
    case 64:  // 16F
    case 65:
      real = 2;
      break;
    case 68:  // 32F and its fast and emulated forms
    case 69:
    case 74:
    case 75:
    case 77:
    case 78:
    case 72:  // 32I
    case 73:
      real = 4;
      break;
    case 70:  // 64F
    case 71:
    case 79:
      real = 8;
      break;
    default:
      return 0;
  }
  return IsComplexType(result) ? 2 * real : real;
}

}  // namespace farcall::thin
