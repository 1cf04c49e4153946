// SPDX-License-Identifier: Apache-2.0
// How a typed value or one of the file becomes an option.
#include <algorithm>
#include <optional>
#include <utility>

#include "proto/printable.h"
#include "proto/text_file.h"
#include "server/supervisor/options/serve_settings.h"
#include "settings/nearest.h"

namespace farcall::server {

namespace {

// Of a kind that this setting does not take.
Status Wrong(const ServeSetting& setting) {
  std::string right = "a text";
  if (setting.list != nullptr) {
    right = "a URL or a list of URLs";
  } else if (setting.number != nullptr) {
    right =
        "a number from " + std::to_string(setting.least) + " to " + std::to_string(setting.most);
  } else if (setting.flag != nullptr) {
    right = "true or false";
  } else if (setting.bytes != nullptr) {
    right = "a size such as \"4GiB\"";
  }
  return {Code::kInvalid, "takes " + right};
}

// Numbers are texts too where a form of its own is read: 1.8, or a size in bytes.
std::optional<std::string> TextOf(const SettingValue& value, bool takes_numbers) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value); whole != nullptr && takes_numbers)
    return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value); number != nullptr && takes_numbers)
    return std::to_string(*number);
  return std::nullopt;
}

Status SetList(const ServeSetting& setting, const SettingValue& value, ServeOptions* options) {
  std::vector<std::string> list;
  if (const auto* one = std::get_if<std::string>(&value))
    list.push_back(*one);
  else if (const auto* several = std::get_if<std::vector<std::string>>(&value))
    list = *several;
  if (list.empty()) return Wrong(setting);
  *setting.list(*options) = std::move(list);
  return {};
}

Status SetNumber(const ServeSetting& setting, const SettingValue& value, ServeOptions* options) {
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr || *number < setting.least || *number > setting.most) return Wrong(setting);
  *setting.number(*options) = static_cast<uint32_t>(*number);
  return {};
}

// An error that begins with "takes" goes on from the setting's name.
Status Apply(const ServeSetting& setting, const SettingValue& value, ServeOptions* options) {
  if (setting.list != nullptr) return SetList(setting, value, options);
  if (setting.number != nullptr) return SetNumber(setting, value, options);
  if (setting.flag != nullptr) {
    const auto* flag = std::get_if<bool>(&value);
    if (flag == nullptr) return Wrong(setting);
    *setting.flag(*options) = *flag;
    return {};
  }
  std::optional<std::string> text =
      TextOf(value, setting.bytes != nullptr || setting.takes_numbers);
  if (!text) return Wrong(setting);
  if (setting.text != nullptr) {
    *setting.text(*options) = *text;
    return {};
  }
  if (setting.bytes == nullptr) return setting.parse(&*text, options);
  Result<uint64_t> bytes = ParseBytes(*text);
  FARCALL_TRY(bytes.status());
  *setting.bytes(*options) = *bytes;
  return {};
}

namespace {

Status UnknownSetting(const std::string& path, const std::string& name, std::string_view nearest) {
  return {Code::kInvalid,
          path + ": unknown setting '" + name + "'; the nearest is '" + std::string(nearest) + "'"};
}

}  // namespace

Status ReadConfigText(std::string_view text, const std::string& path, ServeOptions* options) {
  Result<SettingTable> table = ParseSettings(text, path);
  FARCALL_TRY(table.status());
  std::vector<std::string_view> known = {"config_version"};
  for (const ServeSetting& setting : ServeSettings()) known.push_back(setting.name);
  for (const auto& [name, value] : *table)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return UnknownSetting(path, name, Nearest(name, known));
  for (const ServeSetting& setting : ServeSettings())
    if (auto value = table->find(setting.name); value != table->end())
      FARCALL_TRY(ApplySetting(setting, value->second, path, options));
  return {};
}

}  // namespace

std::string FlagOf(const ServeSetting& setting) {
  std::string flag = "--" + std::string(setting.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Status ApplySetting(const ServeSetting& setting, const SettingValue& value, const std::string& path,
                    ServeOptions* options) {
  Status applied = Apply(setting, value, options);
  if (applied.ok()) return applied;
  const bool goes_on = applied.message().rfind("takes ", 0) == 0;
  return {Code::kInvalid, path + ": setting '" + std::string(setting.name) +
                              (goes_on ? "' " : "': ") + applied.message()};
}

Status ApplyFlag(const ServeSetting& setting, const SettingValue& typed, ServeOptions* options) {
  Status applied = Apply(setting, typed, options);
  return applied.ok() ? applied
                      : Status(Code::kInvalid, FlagOf(setting) + ": " + applied.message());
}

Status ReadServeConfig(const std::string& path, ServeOptions* options) {
  Result<std::string> text = ReadTextFile(path);
  Status read = text.ok()
                    ? ReadConfigText(*text, path, options)
                    : Status(Code::kInvalid, path + ": cannot be read: " + text.status().message());
  return read.ok() ? read : Status(read.code(), Printable(read.message(), kMaxMessageBytes));
}

}  // namespace farcall::server
