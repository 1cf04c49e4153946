// SPDX-License-Identifier: Apache-2.0
#include "proto/shared_bytes.h"

#include <cstdint>

namespace farcall {

namespace {

constexpr size_t kBlockWords = 32;
constexpr size_t kBlockBytes = kBlockWords * sizeof(uint64_t);

// Not inlined: what it is inlined into would be instrumented, or not, as a whole.
#define FARCALL_UNWATCHED __attribute__((noinline, no_sanitize("thread")))

}  // namespace

FARCALL_UNWATCHED bool SharedBytesDiffer(const std::byte* shared, const std::byte* other,
                                         size_t bytes) {
  size_t at = 0;
  for (; at + kBlockBytes <= bytes; at += kBlockBytes) {
    uint64_t differing = 0;
    for (size_t i = 0; i < kBlockWords; ++i) {
      uint64_t a, b;
      __builtin_memcpy(&a, shared + at + i * sizeof(a), sizeof(a));
      __builtin_memcpy(&b, other + at + i * sizeof(b), sizeof(b));
      differing |= a ^ b;
    }
    if (differing != 0) return true;
  }
  for (; at < bytes; ++at)
    if (shared[at] != other[at]) return true;
  return false;
}

// The empty asm keeps the compiler from seeing a memcpy in the loop.
FARCALL_UNWATCHED void CopySharedBytes(std::byte* to, const std::byte* shared, size_t bytes) {
  size_t at = 0;
  for (; at + 4 * sizeof(uint64_t) <= bytes; at += 4 * sizeof(uint64_t)) {
    uint64_t words[4];
    for (size_t i = 0; i < 4; ++i)
      __builtin_memcpy(&words[i], shared + at + i * sizeof(uint64_t), sizeof(uint64_t));
    for (size_t i = 0; i < 4; ++i)
      __builtin_memcpy(to + at + i * sizeof(uint64_t), &words[i], sizeof(uint64_t));
    asm volatile("" ::: "memory");
  }
  for (; at < bytes; ++at) {
    to[at] = shared[at];
    asm volatile("" ::: "memory");
  }
}

}  // namespace farcall
