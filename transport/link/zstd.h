// SPDX-License-Identifier: Apache-2.0
// Zstandard, from the machine's own libzstd.so.1 where it has one: nothing here depends on it.
#pragma once

#include <cstddef>

namespace farcall {

struct ZSTD_CCtx_s;  // only pointers to these are used
struct ZSTD_DCtx_s;

// Functions of its stable interface (zstd.h).
struct Zstd {
  ZSTD_CCtx_s* (*create_compressor)() = nullptr;
  size_t (*free_compressor)(ZSTD_CCtx_s*) = nullptr;
  size_t (*compress)(ZSTD_CCtx_s*, void* into, size_t into_bytes, const void* from,
                     size_t from_bytes, int level) = nullptr;
  ZSTD_DCtx_s* (*create_decompressor)() = nullptr;
  size_t (*free_decompressor)(ZSTD_DCtx_s*) = nullptr;
  size_t (*decompress)(ZSTD_DCtx_s*, void* into, size_t into_bytes, const void* from,
                       size_t from_bytes) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
};

// Loaded at the first call, for good; null: this machine has none.   Thread  any
const Zstd* FindZstd();

}  // namespace farcall
