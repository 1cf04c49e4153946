// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/slots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

#include "proto/printable.h"
#include "proto/text_file.h"

namespace farcall::k8s {

namespace {

constexpr char kSettings[] = "/config.toml";
constexpr const char* kFiles[] = {kSettings, "/token", "/ca.pem"};

Status Failed(const std::string& path) {
  return {Code::kUnavailable, "'" + path + "': " + std::strerror(errno)};
}

Status MakeFolder(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return Failed(path);
  return chmod(path.c_str(), mode) == 0 ? Status() : Failed(path);
}

// By a file of another name, so that nobody reads half of it.
Status WriteFile(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
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

// Whether a text stands between the quotes of a setting as it is.
bool IsPlain(const std::string& text) {
  return Printable(text, text.size()) == text && text.find_first_of("\"\\") == std::string::npos;
}

std::string ClaimLine(const std::string& claim) {
  return "claim = \"" + claim + "\"\n";
}

}  // namespace

std::optional<int> Slots::NumberOf(std::string_view id) const {
  constexpr std::string_view kStart = "slot-";
  int slot = -1;
  if (id.substr(0, kStart.size()) != kStart) return std::nullopt;
  const std::string_view digits = id.substr(kStart.size());
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), slot);
  if (error != std::errc() || slot < 0 || slot >= count_ || Id(slot) != id) return std::nullopt;
  return slot;
}

Result<int> Slots::SlotOf(const std::vector<std::string>& ids) const {
  std::set<int> slots;
  for (const std::string& id : ids) {
    std::optional<int> slot = NumberOf(id);
    if (!slot)
      return Status(Code::kInvalid,
                    "device " + Quoted(id) + ": there are slot-0 to " + Id(count_ - 1));
    if (!slots.insert(*slot).second)
      return Status(Code::kInvalid, "device " + Quoted(id) + " is named twice");
  }
  if (slots.empty()) return Status(Code::kInvalid, "no device is named");
  return *slots.begin();
}

Status Slots::Prepare(int slot) {
  std::lock_guard lock(mutex_);
  FARCALL_TRY(MakeFolder(root_, 0700));
  FARCALL_TRY(MakeFolder(root_ + "/slots", 0755));
  return MakeFolder(Folder(slot), 0755);
}

Status Slots::Write(int slot, const Binding& binding) {
  FARCALL_TRY(Prepare(slot));
  for (const std::string* value : {&binding.endpoint, &binding.claim})
    if (!IsPlain(*value)) return {Code::kInvalid, "the pool's answer " + Quoted(*value)};
  std::lock_guard lock(mutex_);
  const std::string folder = Folder(slot);
  std::string settings =
      "# Written by farcall pool k8s plugin.\nendpoint = \"" + binding.endpoint + "\"\n";
  if (!binding.token.empty()) {
    FARCALL_TRY(WriteFile(folder + "/token", binding.token + "\n"));
    settings += "token_file = \"token\"\n";
  }
  if (!binding.ca.empty()) {
    FARCALL_TRY(WriteFile(folder + "/ca.pem", binding.ca));
    settings += "ca = \"ca.pem\"\n";
  }
  return WriteFile(folder + kSettings, settings + ClaimLine(binding.claim));
}

void Slots::Forget(const std::string& claim) {
  std::lock_guard lock(mutex_);
  for (int slot = 0; slot < count_; ++slot) {
    Result<std::string> settings = ReadTextFile(Folder(slot) + kSettings);
    if (!settings.ok() || settings->find(ClaimLine(claim)) == std::string::npos) continue;
    for (const char* name : kFiles) unlink((Folder(slot) + name).c_str());
  }
}

}  // namespace farcall::k8s
