// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the spec's extents and counts: what an application or a peer says never wraps.
#pragma once

#include <cstdint>
#include <limits>

namespace farcall {

inline constexpr uint64_t kBeyond =
    std::numeric_limits<uint64_t>::max();  // an extent no memory holds

inline uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kBeyond : product;
}

// Bytes from the first to the last of `rows` rows.
inline uint64_t Pitched(uint64_t pitch, uint64_t row_bytes, uint64_t rows) {
  if (rows == 0) return 0;
  uint64_t bytes = 0;
  return __builtin_add_overflow(Product(pitch, rows - 1), row_bytes, &bytes) ? kBeyond : bytes;
}

// A count the application got wrong reads no further than the API would.
inline uint64_t AtMost(uint64_t count, uint64_t limit) {
  return count < limit ? count : limit;
}
inline uint64_t Minus(uint64_t a, uint64_t b) {
  return a < b ? 0 : a - b;
}

}  // namespace farcall
