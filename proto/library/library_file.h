// SPDX-License-Identifier: Apache-2.0
// Files of the server's toolkit that frameworks read by themselves: a kLibrary call of any library
// (proto/library/library_call.h), which a server that has such files answers.
//   kLibraryFile  {u32 LibraryFile, u32 0, u64 from} -> {i32 status, u32 0, u64 whole, a piece}; if
//                 the status is not 0, why in place of the piece
#pragma once

#include <cstdint>

namespace farcall {

inline constexpr uint16_t kLibraryFile = 0xFFF3;
enum class LibraryFile : uint32_t {
  kLibdevice = 1,  // libdevice.10.bc: device functions that XLA links into its kernels
};
inline constexpr uint64_t kFilePieceBytes = 256u << 10;
inline constexpr uint64_t kMaxFileBytes = 64u << 20;

}  // namespace farcall
