// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/tile_ir.h"

#include <cstring>

namespace farcall::cuda_abi {
namespace {

constexpr uint64_t kHeaderBytes = 12;  // the magic with its NUL, two bytes and a word of version
constexpr uint8_t kEnd = 0, kAligned = 0x80;
constexpr char kMagic[] = "\x7fTileIR";

// Seven bits a byte, the lowest first; false past the limit or 64 bits.
bool GetNumber(const uint8_t* code, uint64_t limit, uint64_t* at, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 63 && *at < limit; shift += 7) {
    const uint8_t byte = code[(*at)++];
    *value |= uint64_t{byte & 0x7Fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

}  // namespace

uint64_t TileIrBytes(const uint8_t* code, uint64_t limit) {
  if (limit < kHeaderBytes || memcmp(code, kMagic, sizeof(kMagic)) != 0) return 0;
  uint64_t at = kHeaderBytes;
  while (at < limit) {
    // {what it is and whether it is aligned, its length, its alignment, padding, the section}
    const uint8_t section = code[at++];
    if ((section & ~kAligned) == kEnd) return at;
    uint64_t bytes = 0, align = 1;
    if (!GetNumber(code, limit, &at, &bytes)) return 0;
    if ((section & kAligned) != 0 && !GetNumber(code, limit, &at, &align)) return 0;
    if (align == 0 || (align & (align - 1)) != 0 || align > limit - at) return 0;
    const uint64_t padding = (align - at % align) % align;
    if (padding > limit - at || bytes > limit - at - padding) return 0;
    at += padding + bytes;
  }
  return 0;
}

}  // namespace farcall::cuda_abi
