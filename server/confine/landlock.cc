// SPDX-License-Identifier: Apache-2.0
#include "server/confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace farcall::server {

namespace {

// <linux/landlock.h> is newer than some build hosts.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr unsigned kAskVersion = 1;
constexpr int kPathBeneath = 1;
enum Right : uint64_t {
  kExecute = 1,
  kWriteFile = 1 << 1,
  kReadFile = 1 << 2,
  kReadFolder = 1 << 3,
  kRemoveFolder = 1 << 4,
  kRemoveFile = 1 << 5,
  kMakeFolder = 1 << 7,
  kMakeFile = 1 << 8,
  kRefer = 1 << 13,     // version 2
  kTruncate = 1 << 14,  // version 3
  kControl = 1 << 15,   // version 5: ioctl of device nodes
};
constexpr uint64_t kFirstRights = (1u << 13) - 1;
constexpr uint64_t kPorts = 3;   // version 4: bind, connect
constexpr uint64_t kScopes = 3;  // version 6: abstract sockets, signals
constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kControl;

struct RulesetAttributes {
  uint64_t files, ports, scopes;
};
struct [[gnu::packed]] PathAttributes {
  uint64_t allowed;
  int32_t parent;
};

Status Why(const std::string& what) {
  return {Code::kUnavailable, "Landlock: " + what + ": " + strerror(errno)};
}

// An older kernel takes a shorter structure.
size_t AttributeBytes(int version) {
  return version >= 6 ? 24 : version >= 4 ? 16 : 8;
}

}  // namespace

int LandlockRules::Version() {
  long version = syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  return version > 0 ? static_cast<int>(version) : 0;
}

LandlockRules::LandlockRules(Isolation isolation) : version_(Version()) {
  handled_ = kFirstRights;
  handled_ |= version_ >= 2 ? uint64_t{kRefer} : 0;
  handled_ |= version_ >= 3 ? uint64_t{kTruncate} : 0;
  handled_ |= version_ >= 5 ? uint64_t{kControl} : 0;
  RulesetAttributes attributes{handled_, 0, 0};
  if (isolation != Isolation::kNone) {
    attributes.ports = isolation == Isolation::kAll && version_ >= 4 ? kPorts : 0;
    attributes.scopes = version_ >= 6 ? kScopes : 0;
  }
  rules_ = static_cast<int>(syscall(kCreateRuleset, &attributes, AttributeBytes(version_), 0));
  if (rules_ < 0) status_ = Why("no rules");
}

LandlockRules::~LandlockRules() {
  if (rules_ >= 0) close(rules_);
}

uint64_t LandlockRules::RightsOf(Access access, bool is_folder) const {
  uint64_t rights = kExecute | kReadFile | kReadFolder;
  if (access != Access::kRead) rights |= kWriteFile | kTruncate;
  if (access == Access::kDevice) rights |= kControl;
  if (access == Access::kFiles) rights |= kRemoveFile | kMakeFile;
  if (access == Access::kReadWrite)
    rights |= kRemoveFolder | kRemoveFile | kMakeFolder | kMakeFile | kRefer;
  rights &= is_folder ? ~uint64_t{0} : kOfFiles;
  return rights & handled_;
}

void LandlockRules::Allow(const std::string& path, Access access) {
  if (rules_ < 0 || path.empty()) return;
  int parent = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (parent < 0) return;
  Add(parent, access, path);
  close(parent);
}

void LandlockRules::Allow(int folder, Access access) {
  if (rules_ >= 0 && folder >= 0) Add(folder, access, "a folder that was handed over");
}

void LandlockRules::Add(int parent, Access access, const std::string& name) {
  struct stat status {};
  if (fstat(parent, &status) != 0) return;
  PathAttributes rule{RightsOf(access, S_ISDIR(status.st_mode)), parent};
  if (syscall(kAddRule, rules_, kPathBeneath, &rule, 0) != 0 && status_.ok()) status_ = Why(name);
}

Status LandlockRules::Enforce() {
  if (status_.ok() &&
      (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(kRestrictSelf, rules_, 0) != 0))
    status_ = Why("cannot begin");
  return status_;
}

}  // namespace farcall::server
