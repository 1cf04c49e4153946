// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/worker_users.h"

#include <errno.h>
#include <grp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "proto/printable.h"

namespace farcall::server {

namespace {

constexpr uint32_t kMaxUsers = 65536;
constexpr rlim_t kMaxThreads = 4096;  // counted by user id; a session of many threads has hundreds

Result<uid_t> ParseUser(std::string_view text, std::string_view whole) {
  uid_t user = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), user);
  if (error != std::errc() || end != text.data() + text.size() || user == 0 ||
      user == static_cast<uid_t>(-1)) {
    return Status(Code::kInvalid,
                  Quoted(whole) + ": user ids above 0 such as 700000-700255 are right");
  }
  return user;
}

}  // namespace

Result<UserRange> ParseUserRange(std::string_view text) {
  size_t dash = text.find('-');
  Result<uid_t> first = ParseUser(text.substr(0, dash), text);
  if (!first.ok()) return first.status();
  Result<uid_t> last =
      dash == text.npos ? Result<uid_t>(*first) : ParseUser(text.substr(dash + 1), text);
  if (!last.ok()) return last.status();
  if (*last < *first || *last - *first >= kMaxUsers) {
    return Status(Code::kInvalid, Quoted(text) + ": a range of 1 to " + std::to_string(kMaxUsers) +
                                      " ids, the lowest first");
  }
  return UserRange{*first, *last - *first + 1};
}

Result<uid_t> WorkerUsers::Take(const std::string& vgpu) {
  std::lock_guard lock(mutex_);
  if (auto found = uses_.find(vgpu); found != uses_.end()) {
    ++found->second.workers;
    return found->second.user;
  }
  for (uint32_t tried = 0; tried < range_.count; ++tried) {
    uid_t user = range_.first + (next_ + tried) % range_.count;
    if (taken_.insert(user).second) {
      next_ = (next_ + tried + 1) % range_.count;
      uses_[vgpu] = {user, 1};
      return user;
    }
  }
  return Status(Code::kUnavailable, "worker users: all " + std::to_string(range_.count) +
                                        " ids are in use; a wider --worker-users admits more");
}

void WorkerUsers::Rename(const std::string& from, const std::string& vgpu) {
  std::lock_guard lock(mutex_);
  if (auto held = uses_.extract(from); !held.empty()) {
    held.key() = vgpu;
    uses_.insert(std::move(held));
  }
}

void WorkerUsers::GiveBack(const std::string& vgpu) {
  std::lock_guard lock(mutex_);
  auto found = uses_.find(vgpu);
  if (found != uses_.end() && --found->second.workers == 0) {
    taken_.erase(found->second.user);
    uses_.erase(found);
  }
}

Status BecomeUser(uid_t user) {
  auto failed = [user](const char* what) {
    return Status(Code::kUnavailable,
                  "user " + std::to_string(user) + ": " + what + ": " + strerror(errno));
  };
  rlimit threads{kMaxThreads, kMaxThreads};
  setrlimit(RLIMIT_NPROC, &threads);
  if (chdir("/") != 0) return failed("chdir");
  if (setgroups(0, nullptr) != 0) return failed("setgroups");
  if (setresgid(user, user, user) != 0) return failed("setresgid");
  if (setresuid(user, user, user) != 0) return failed("setresuid");
  if (setuid(0) == 0 || setgid(0) == 0)
    return {Code::kUnavailable, "user " + std::to_string(user) + ": privileges came back"};
  // It has no home: what it kept there would be the next tenant's that gets this id. Its tenant's
  // caches come by descriptors.
  for (const char* name : {"HOME", "XDG_CACHE_HOME", "FARCALL_CACHE_DIR"}) unsetenv(name);
  return {};
}

}  // namespace farcall::server
