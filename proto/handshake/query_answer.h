// SPDX-License-Identifier: Apache-2.0
// What a server says to a client that asks by SessionFeature::kQuery and wants no session: a
// WELCOME that begins none, then what is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/handshake/handshake.h"

namespace farcall {

struct QueryAnswer {
  Welcome welcome;
  std::vector<uint64_t> free_bytes;  // of each device, what a new vGPU could get now
};

std::vector<std::byte> Encode(const QueryAnswer& value);
// The body of a WELCOME. A server that does not know kQuery has begun a session: its WELCOME lacks
// that feature, and nothing is said to be free.
//   Errors  kMalformed
Result<QueryAnswer> DecodeQueryAnswer(std::span<const std::byte> body);

}  // namespace farcall
