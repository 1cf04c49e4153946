// SPDX-License-Identifier: Apache-2.0
// Seconds on a command line: a plain number. The parser of flags alone takes "0x10", "inf" and
// "nan" too.
#pragma once

#include <string>

#include "settings/decimal.h"

namespace farcall::cli {

// For CLI::Option::check: what is wrong with it, "": nothing.
inline std::string CheckSeconds(const std::string& text) {
  constexpr uint64_t kMax = 31'622'400;  // a leap year
  Decimal seconds;
  bool fine = ReadDecimal(text, &seconds) && seconds.rest.empty() && seconds.whole <= kMax;
  return fine ? std::string() : "'" + text + "': seconds, such as 1.5, at most a year";
}

}  // namespace farcall::cli
