// SPDX-License-Identifier: Apache-2.0
// Sizes of memory as people write them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "settings/decimal.h"

namespace farcall {

inline constexpr char kByteCountForm[] = "write it as 4GiB, 512MiB or a number of bytes";

// Less than this is nobody's memory: "4" was meant as 4GiB.
inline constexpr uint64_t kLeastMemoryBytes = uint64_t{64} << 10;
inline constexpr char kLittleMemory[] = "less than 64KiB; write 4GiB for 4 GiB";

// "4GiB", "1.5mib", "2GB", "512M" (as MiB), "1000"; small letters are the same. False if it is
// none, or no 64-bit number of bytes; what is left of a byte is dropped.
inline bool ParseByteCount(std::string_view text, uint64_t* bytes) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},
                             {"B", 1},
                             {"KiB", uint64_t{1} << 10},
                             {"MiB", uint64_t{1} << 20},
                             {"GiB", uint64_t{1} << 30},
                             {"TiB", uint64_t{1} << 40},
                             {"K", uint64_t{1} << 10},
                             {"M", uint64_t{1} << 20},
                             {"G", uint64_t{1} << 30},
                             {"T", uint64_t{1} << 40},
                             {"KB", 1000},
                             {"MB", 1000 * 1000},
                             {"GB", kBillion},
                             {"TB", uint64_t{1000} * kBillion}};
  auto is_same = [](std::string_view a, std::string_view b) {
    auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                              [&](char x, char y) { return small(x) == small(y); });
  };
  Decimal number;
  if (!ReadDecimal(text, &number)) return false;
  for (const Unit& unit : kUnits) {
    if (!is_same(number.rest, unit.name)) continue;
    __extension__ using Wide = unsigned __int128;
    const Wide part = Wide{unit.bytes} * number.billionths / kBillion;
    const Wide all = Wide{unit.bytes} * number.whole + part;
    if (all > UINT64_MAX) return false;
    *bytes = static_cast<uint64_t>(all);
    return true;
  }
  return false;
}

}  // namespace farcall
