// SPDX-License-Identifier: Apache-2.0
// Bytes as hexadecimal digits, lower case: names of files, tokens and keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace farcall {

inline std::string HexOf(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

}  // namespace farcall
