// SPDX-License-Identifier: Apache-2.0
// Reads of memory that somebody may be writing: host memory that kernels reach is compared as a
// whole while other threads, or the device, write their parts of it. A word is seen old or new, and
// looked at again. Neither memcmp nor memcpy: ThreadSanitizer replaces those, also in users'
// programs, and would call each such read a race.
#pragma once

#include <cstddef>

namespace farcall {

bool SharedBytesDiffer(const std::byte* shared, const std::byte* other, size_t bytes);
void CopySharedBytes(std::byte* to, const std::byte* shared, size_t bytes);

}  // namespace farcall
