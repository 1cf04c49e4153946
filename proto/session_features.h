// SPDX-License-Identifier: Apache-2.0
// What a server may know beyond the API's calls, as bits of Welcome::supported_calls where no call
// stands. A client sends such a message only to a server that has its bit: another one would take
// it for a lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall {

enum class SessionFeature : size_t { kNvml = 0 };  // SessionCall::kNvml; calls count from 1

inline void AddFeature(std::vector<uint8_t>* supported_calls, SessionFeature feature) {
  size_t bit = static_cast<size_t>(feature);
  if (supported_calls->size() <= bit / 8) supported_calls->resize(bit / 8 + 1);
  (*supported_calls)[bit / 8] |= static_cast<uint8_t>(1u << (bit % 8));
}

inline bool HasFeature(const std::vector<uint8_t>& supported_calls, SessionFeature feature) {
  size_t bit = static_cast<size_t>(feature);
  return bit / 8 < supported_calls.size() && (supported_calls[bit / 8] >> (bit % 8) & 1) != 0;
}

}  // namespace farcall
