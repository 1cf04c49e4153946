// SPDX-License-Identifier: Apache-2.0
#include "cli/login_file.h"

#include <strings.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "transport/url.h"

namespace farcall::cli {

namespace {

constexpr size_t kMaxLine = 4096;

// "pool.example" of "https://pool.example:7719/"; "[::1]" with its brackets.
std::string_view HostOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  const size_t bracket = url.empty() || url[0] != '[' ? 0 : url.find(']');
  return url.substr(0, url.find_first_of(":/", bracket));
}

std::string_view PortOf(std::string_view url) {
  return url.substr(std::min(url.size(), url.rfind(':')));
}

}  // namespace

bool IsToken(const std::string& text) {
  return !text.empty() && text.size() < kMaxLine &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~+/=-") ==
             std::string::npos;
}

std::string LoginPath() {
  const char* base = std::getenv("XDG_CONFIG_HOME");
  if (base != nullptr && *base != '\0') return std::string(base) + "/farcall/pool-login";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.config/farcall/pool-login";
}

Result<std::optional<Login>> ReadLogin() {
  const std::string path = LoginPath();
  struct stat found {};
  if (path.empty() || stat(path.c_str(), &found) != 0) return std::optional<Login>();
  if ((found.st_mode & 077) != 0)
    return Status(Code::kInvalid,
                  "'" + path + "' may be read by others: chmod 600 it, or " + "`farcall logout`");
  std::ifstream file(path);
  Login login;
  std::getline(file, login.token);
  std::getline(file, login.url);
  std::getline(file, login.ca);
  std::getline(file, login.data);
  if (file.fail() || !IsToken(login.token) || login.url.rfind("http", 0) != 0 ||
      login.url.size() > kMaxLine || login.ca.size() > kMaxLine || login.data.size() > kMaxLine)
    return Status(Code::kInvalid, "'" + path + "' cannot be read: run `farcall login URL` again");
  return std::optional(login);
}

bool IsOfPool(const Login& login, const std::string& endpoint) {
  const std::string_view one = HostOf(login.url), other = HostOf(endpoint);
  if (one.empty() || one.size() != other.size() ||
      strncasecmp(one.data(), other.data(), one.size()) != 0)
    return false;
  return !IsLoopbackUrl(endpoint) || PortOf(login.data) == PortOf(endpoint);
}

}  // namespace farcall::cli
