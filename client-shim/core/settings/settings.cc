// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <span>

#include "proto/handshake/handshake.h"
#include "proto/hex.h"
#include "proto/printable.h"
#include "proto/settings_file.h"
#include "proto/text_file.h"
#include "settings/nearest.h"
#include "transport/url.h"

namespace farcall::client {

namespace {

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

bool IsPath(std::string_view name) {
  constexpr std::string_view kPaths[] = {"token_file", "log_file", "stats", "cache_dir",
                                         "ca",         "cert",     "key"};
  return std::find(std::begin(kPaths), std::end(kPaths), name) != std::end(kPaths);
}

// `file`: the one it stands in; "": the environment, whose paths are the process's.
std::string Resolved(const std::string& path, const std::string& file) {
  const std::string home = Variable("HOME");
  if (path.compare(0, 2, "~/") == 0 && !home.empty()) return home + path.substr(1);
  if (file.empty() || path.empty() || path[0] == '/') return path;
  return file.substr(0, file.rfind('/') + 1) + path;
}

// As the environment would spell it; false: of no such kind.
bool Spell(const SettingValue& value, std::string* text) {
  if (const auto* string = std::get_if<std::string>(&value))
    *text = *string;
  else if (const auto* flag = std::get_if<bool>(&value))
    *text = std::to_string(*flag ? 1 : 0);
  else if (const auto* number = std::get_if<int64_t>(&value))
    *text = std::to_string(*number);
  else
    return false;
  return true;
}

}  // namespace

const std::vector<std::string_view>& Settings::Names() {
  static const auto* names = new std::vector<std::string_view>{
      "endpoint",  "token",          "token_file",  "log",     "log_file",
      "sync",      "stats",          "mem",         "share",   "limit",
      "priority",  "cache_dir",      "claim",       "count",   "net",
      "libdevice", "library_cache",  "ca",          "cert",    "key",
      "transport", "tcp_congestion", "compression", "progress"};
  return *names;
}

std::vector<std::string> Settings::Files() {
  std::string base = Variable("XDG_CONFIG_HOME"), home = Variable("HOME");
  if (base.empty() && !home.empty()) base = home + "/.config";
  std::vector<std::string> files;
  if (!base.empty()) files.push_back(base + "/farcall/config.toml");
  files.push_back("/etc/farcall/config.toml");
  return files;
}

Settings Settings::Load(const std::vector<std::string>& files) {
  Settings settings;
  for (const std::string& path : files)
    if (!settings.LoadFile(path)) break;
  return settings;
}

std::string Settings::CacheFolder() const {
  std::string folder = Find("cache_dir").value;
  if (!folder.empty()) return folder;
  std::string base = Variable("XDG_CACHE_HOME"), home = Variable("HOME");
  if (base.empty() && !home.empty()) base = home + "/.cache";
  return base.empty() ? "" : base + "/farcall";
}

bool Settings::LoadFile(const std::string& path) {
  Result<std::string> text = ReadTextFile(path);
  if (text.status().code() == Code::kUnavailable) return true;
  Status loaded =
      text.ok() ? LoadText(*text, path)
                : Status(Code::kInvalid, path + ": cannot be read: " + text.status().message());
  error_ = Printable(loaded.message(), kMaxMessageBytes);
  return loaded.ok();
}

Status Settings::LoadText(std::string_view text, const std::string& path) {
  Result<SettingTable> parsed = ParseSettings(text, path);
  if (!parsed.ok()) return parsed.status();
  for (const auto& [name, node] : *parsed) {
    if (std::find(Names().begin(), Names().end(), name) == Names().end())
      return {Code::kInvalid, path + ": no setting " + Quoted(name) + "; the nearest is " +
                                  Quoted(Nearest(name, Names()))};
    std::string value;
    if (!Spell(node, &value))
      return {Code::kInvalid,
              path + ": setting " + Quoted(name) + " takes text, a whole number or a truth"};
    from_files_.try_emplace(name, Setting{IsPath(name) ? Resolved(value, path) : value, path});
  }
  return {};
}

Setting Settings::Find(std::string_view name) const {
  std::string variable = "FARCALL_";
  for (char c : name) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string value = Variable(variable);
  if (!value.empty()) return {IsPath(name) ? Resolved(value, "") : value, variable};
  auto found = from_files_.find(name);
  return found == from_files_.end() ? Setting() : found->second;
}

Result<Setting> Settings::FindEndpoint() const {
  Setting endpoint = Find("endpoint");
  if (endpoint.value.empty()) return endpoint;
  Result<std::string> whole = WholeEndpoints(endpoint.value);
  if (!whole.ok())
    return Status(whole.status().code(), endpoint.source + ": " + whole.status().message());
  endpoint.value = *whole;
  return endpoint;
}

Result<std::string> Settings::FindToken() const {
  const Setting token = Find("token"), file = Find("token_file");
  if (!token.value.empty() || file.value.empty()) return token.value;
  constexpr size_t kMaxTokenFileBytes = 64u << 10;
  Result<std::string> text = ReadTextFile(file.value, kMaxTokenFileBytes);
  if (!text.ok())
    return Status(Code::kInvalid, file.source + ": token file '" + file.value +
                                      "': cannot be read: " + text.status().message());
  return text->substr(0, text->find_first_of("\r\n"));
}

std::string ServerCacheScope(const std::string& endpoint, const std::string& token) {
  constexpr size_t kScopeBytes = 16;
  const bool is_private = !endpoint.empty() && Variable("FARCALL_PRIVATE_SERVER") == endpoint;
  std::string text = "farcall-server-1|private";
  if (!is_private) {
    const Hash256 secret = Sha256(std::as_bytes(std::span(token)));
    text = "farcall-server-1|" + (token.empty() ? "open" : HexOf(secret)) + "|" + endpoint;
  }
  const Hash256 hash = Sha256(std::as_bytes(std::span(text)));
  return HexOf(std::span(hash).first(kScopeBytes));
}

}  // namespace farcall::client
