// SPDX-License-Identifier: Apache-2.0
// Settings files of clients and servers: TOML without tables. One translation unit parses them: the
// inline functions of toml++ differ with and without exceptions, and a program that was linked from
// both kinds crashes at the first syntax error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/status.h"

namespace farcall {

// monostate: of a kind that no setting has, such as a table, a date or a list of numbers.
using SettingValue =
    std::variant<std::monostate, std::string, int64_t, double, bool, std::vector<std::string>>;
using SettingTable = std::map<std::string, SettingValue, std::less<>>;

// The settings in `text`. `path` is for the message.
//   Errors  kInvalid, one line: the file, the line in it, and the fault
Result<SettingTable> ParseSettings(std::string_view text, const std::string& path);

}  // namespace farcall
