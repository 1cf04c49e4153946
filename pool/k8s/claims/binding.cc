// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/claims/binding.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/printable.h"
#include "proto/text_file.h"

namespace farcall::k8s {

namespace {

constexpr char kSettings[] = "/config.toml";
constexpr const char* kFiles[] = {kSettings, "/token", "/ca.pem"};
constexpr char kDraft[] = ".new";
constexpr char kClaimStart[] = "claim = \"";

Status Failed(const std::string& path) {
  return {Code::kUnavailable, "'" + path + "': " + std::strerror(errno)};
}

// Whether a text stands between the quotes of a setting as it is.
bool IsPlain(const std::string& text) {
  return Printable(text, text.size()) == text && text.find_first_of("\"\\") == std::string::npos;
}

}  // namespace

Status MakeFolder(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return Failed(path);
  return chmod(path.c_str(), mode) == 0 ? Status() : Failed(path);
}

Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string draft = path + kDraft;
  unlink(draft.c_str());
  int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (file < 0) return Failed(draft);
  const bool is_whole = fchmod(file, 0444) == 0 &&
                        write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  Status failed = is_whole ? Status() : Failed(draft);
  close(file);
  if (!failed.ok()) return failed;
  return rename(draft.c_str(), path.c_str()) == 0 ? Status() : Failed(path);
}

Status WriteBinding(const std::string& folder, const Binding& binding) {
  for (const std::string* value : {&binding.endpoint, &binding.claim})
    if (!IsPlain(*value)) return {Code::kInvalid, "the pool's answer " + Quoted(*value)};
  std::string settings =
      "# Written by farcall pool k8s.\nendpoint = \"" + binding.endpoint + "\"\n";
  if (!binding.token.empty()) {
    FARCALL_TRY(WriteWhole(folder + "/token", binding.token + "\n"));
    settings += "token_file = \"token\"\n";
  }
  if (!binding.ca.empty()) {
    FARCALL_TRY(WriteWhole(folder + "/ca.pem", binding.ca));
    settings += "ca = \"ca.pem\"\n";
  }
  return WriteWhole(folder + kSettings, settings + kClaimStart + binding.claim + "\"\n");
}

std::string BoundClaim(const std::string& folder) {
  Result<std::string> settings = ReadTextFile(folder + kSettings);
  const std::string start = std::string("\n") + kClaimStart;
  const size_t at = settings.ok() ? settings->rfind(start) : std::string::npos;
  if (at == std::string::npos) return "";
  const size_t begin = at + start.size(), end = settings->find('"', begin);
  return end == std::string::npos ? "" : settings->substr(begin, end - begin);
}

void RemoveBinding(const std::string& folder) {
  for (const char* name : kFiles)
    for (const char* end : {"", kDraft}) unlink((folder + name + end).c_str());
}

}  // namespace farcall::k8s
