// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <errno.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "proto/handshake.h"
#include "proto/hex.h"
#include "proto/nearest.h"

namespace farcall::client {

namespace {

constexpr size_t kMostFileBytes = 1u << 20;

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : std::string(value);
}

// As the environment would spell it; false: of no such kind.
bool Spell(const toml::node& node, std::string* text) {
  if (auto string = node.value_exact<std::string>()) {
    *text = *string;
  } else if (auto flag = node.value_exact<bool>()) {
    *text = *flag ? "1" : "0";
  } else if (auto number = node.value_exact<int64_t>()) {
    *text = std::to_string(*number);
  } else {
    return false;
  }
  return true;
}

// False with `error` set; also false, without, if there is no such file.
bool Read(const std::string& path, std::string* text, std::string* error) {
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    if (errno != ENOENT && errno != ENOTDIR) *error = std::strerror(errno);
    return false;
  }
  text->resize(kMostFileBytes);
  text->resize(std::fread(text->data(), 1, text->size(), file));
  bool failed = std::ferror(file) != 0;
  if (failed) *error = std::strerror(errno);
  std::fclose(file);
  return !failed;
}

}  // namespace

const std::vector<std::string_view>& Settings::Names() {
  static const auto* names = new std::vector<std::string_view>{
      "endpoint", "token", "token_file", "log",       "log_file",     "sync",
      "stats",    "mem",   "share",      "limit",     "priority",     "cache_dir",
      "claim",    "count", "net",        "libdevice", "library_cache"};
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
  std::string text, failure;
  if (!Read(path, &text, &failure)) {
    if (!failure.empty()) error_ = path + ": cannot be read: " + failure;
    return failure.empty();
  }
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    error_ = path + ":" + std::to_string(parsed.error().source().begin.line) + ": " +
             std::string(parsed.error().description());
    return false;
  }
  for (auto&& [key, node] : parsed.table()) {
    std::string_view name = key.str();
    if (std::find(Names().begin(), Names().end(), name) == Names().end()) {
      error_ = path + ": no setting '" + std::string(name) + "'; the nearest is '" +
               std::string(Nearest(name, Names())) + "'";
      return false;
    }
    std::string value;
    if (!Spell(node, &value)) {
      error_ = path + ": setting '" + std::string(name) + "' takes text, a whole number or a truth";
      return false;
    }
    from_files_.try_emplace(std::string(name), Setting{value, path});
  }
  return true;
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
