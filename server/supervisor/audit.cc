// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/audit.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

namespace farcall::server {

namespace {

// As RFC 3339 has it, in UTC, to the millisecond.
std::string Now() {
  auto now = std::chrono::system_clock::now();
  std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof(text) - length, ".%03dZ", static_cast<int>(ms % 1000));
  return text;
}

int OpenToAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

}  // namespace

Audit::~Audit() {
  if (file_ >= 0) close(file_);
}

Status Audit::Open(const std::string& path) {
  if (path.empty()) return {};
  path_ = path;
  file_ = OpenToAppend(path);
  if (file_ >= 0) return {};
  return {Code::kInvalid, "audit file '" + path + "': " + strerror(errno)};
}

void Audit::ReopenIfMovedLocked() {
  struct stat ours {
  }, there{};
  const bool is_there = stat(path_.c_str(), &there) == 0;
  if (is_there && fstat(file_, &ours) == 0 && ours.st_ino == there.st_ino &&
      ours.st_dev == there.st_dev)
    return;
  const int file = OpenToAppend(path_);
  if (file < 0) {
    spdlog::error("audit file '{}': {}; the file that was renamed is written on", path_,
                  strerror(errno));
    return;
  }
  close(std::exchange(file_, file));
}

void Audit::Note(const char* event, nlohmann::json fields) {
  if (file_ < 0) return;
  fields["time"] = Now();
  fields["event"] = event;
  // In ASCII: people read it in terminals.
  std::string line = fields.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
  std::lock_guard lock(mutex_);
  ReopenIfMovedLocked();
  if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    spdlog::error("the audit file misses a line: {}", line);
}

}  // namespace farcall::server
