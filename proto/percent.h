// SPDX-License-Identifier: Apache-2.0
// Shares and limits as people write them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace farcall {

// "30%", "0.3", "100%" in thousandths. False if it is neither, or more than all.
inline bool ParseMilli(const std::string& text, uint32_t* milli) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(value >= 0)) return false;
  if (std::strcmp(end, "%") == 0) {
    value /= 100;
  } else if (*end != '\0') {
    return false;
  }
  if (value > 1) return false;
  *milli = static_cast<uint32_t>(std::lround(value * 1000));
  return true;
}

}  // namespace farcall
