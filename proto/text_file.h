// SPDX-License-Identifier: Apache-2.0
// Small files that people write: settings, tokens, lists of verifiers.
#pragma once

#include <cstddef>
#include <string>

#include "proto/status.h"

namespace farcall {

inline constexpr size_t kMaxTextFileBytes = 1u << 20;

// The whole of a file. It reads devices and pipes too, and never more than the limit of them.
//   Errors  kUnavailable (there is no such file), kInvalid (it cannot be read, or has more); the
//           message is the reason alone
Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes = kMaxTextFileBytes);

}  // namespace farcall
