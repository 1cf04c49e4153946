// SPDX-License-Identifier: Apache-2.0
// Host arrays of a library's call that are too long for its record or its reply: blobs
// (proto/library/library_call.h) that it names.
#pragma once

#include <cstdint>

#include "proto/library/library_call.h"

namespace farcall {

// In place of an array's length: the u64 name of its blob follows.
inline constexpr uint64_t kLibraryInBlob = ~uint64_t{0} - 2;
// An output larger than this is answered by the name of the blob that has it.
inline constexpr uint64_t kMaxOutBytes = 48u << 10;

}  // namespace farcall
