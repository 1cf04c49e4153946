// SPDX-License-Identifier: Apache-2.0
#include "proto/settings_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <optional>

#include "proto/printable.h"

namespace farcall {

namespace {

SettingValue ListOf(const toml::array& array) {
  std::vector<std::string> list;
  for (const toml::node& entry : array) {
    std::optional<std::string> text = entry.value_exact<std::string>();
    if (!text) return {};
    list.push_back(*std::move(text));
  }
  return list;
}

SettingValue ValueOf(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return *std::move(text);
  if (auto number = node.value_exact<int64_t>()) return *number;
  if (auto number = node.value_exact<double>()) return *number;
  if (auto flag = node.value_exact<bool>()) return *flag;
  if (const toml::array* array = node.as_array()) return ListOf(*array);
  return {};
}

}  // namespace

Result<SettingTable> ParseSettings(std::string_view text, const std::string& path) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Status(Code::kInvalid, Printable(path + ":" + std::to_string(error.source().begin.line) +
                                                ": " + std::string(error.description()),
                                            kMaxMessageBytes));
  }
  SettingTable settings;
  for (auto&& [key, node] : parsed.table()) settings.emplace(std::string(key.str()), ValueOf(node));
  return settings;
}

}  // namespace farcall
