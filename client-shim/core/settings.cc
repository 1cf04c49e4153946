// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "proto/handshake.h"
#include "proto/hex.h"
#include "proto/nearest.h"
#include "proto/printable.h"
#include "proto/settings_file.h"
#include "proto/text_file.h"

namespace farcall::client {

namespace {

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

// As the environment would spell it; false: of no such kind.
bool Spell(const SettingValue& value, std::string* text) {
  if (const auto* string = std::get_if<std::string>(&value)) {
    *text = *string;
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    *text = std::to_string(*flag ? 1 : 0);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    *text = std::to_string(*number);
  } else {
    return false;
  }
  return true;
}

}  // namespace

const std::vector<std::string_view>& Settings::Names() {
  static const auto* names = new std::vector<std::string_view>{
      "endpoint", "token",     "token_file",    "log",      "log_file",  "sync",  "stats",
      "mem",      "share",     "limit",         "priority", "cache_dir", "claim", "count",
      "net",      "libdevice", "library_cache", "ca",       "cert",      "key"};
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
  for (const std::string& path : files) {
    if (!settings.LoadFile(path)) break;
  }
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
    from_files_.try_emplace(name, Setting{value, path});
  }
  return {};
}

Setting Settings::Find(std::string_view name) const {
  std::string variable = "FARCALL_";
  for (char c : name) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string value = Variable(variable);
  if (!value.empty()) return {value, variable};
  auto found = from_files_.find(name);
  return found == from_files_.end() ? Setting() : found->second;
}

bool Settings::FindToken(std::string* token) const {
  *token = Find("token").value;
  const std::string path = Find("token_file").value;
  if (!token->empty() || path.empty()) return true;
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  char buffer[4096];
  token->assign(buffer, std::fread(buffer, 1, sizeof(buffer), file));
  std::fclose(file);
  token->resize(std::min(token->find_first_of("\r\n"), token->size()));
  return true;
}

std::string ServerScope(const std::string& endpoint, const std::string& token) {
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
