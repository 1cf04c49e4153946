// SPDX-License-Identifier: Apache-2.0
#include "server/toolchain/read_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace farcall::server {

namespace {

// <linux/landlock.h> is newer than some build hosts: the kernel's first version of the interface.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr int kPathBeneath = 1;
constexpr uint64_t kExecute = 1, kReadFile = 4, kReadFolder = 8, kAllRights = (1u << 13) - 1;
struct RulesetAttributes {
  uint64_t handled;
};
struct [[gnu::packed]] PathAttributes {
  uint64_t allowed;
  int32_t parent;
};

Status Why(const char* what) {
  return {Code::kUnavailable, std::string("Landlock: ") + what + ": " + strerror(errno)};
}

}  // namespace

Status ConfineReads(const std::vector<std::string>& folders) {
  RulesetAttributes attributes = {kAllRights};
  int ruleset = static_cast<int>(syscall(kCreateRuleset, &attributes, sizeof(attributes), 0));
  if (ruleset < 0) return Why("no rules");
  Status status;
  for (const std::string& folder : folders) {
    int parent = open(folder.c_str(), O_PATH | O_CLOEXEC | O_DIRECTORY);
    if (parent < 0) continue;  // what is not there cannot be read
    PathAttributes path = {kExecute | kReadFile | kReadFolder, parent};
    if (syscall(kAddRule, ruleset, kPathBeneath, &path, 0) != 0) status = Why(folder.c_str());
    close(parent);
  }
  if (status.ok() &&
      (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(kRestrictSelf, ruleset, 0) != 0)) {
    status = Why("cannot begin");
  }
  close(ruleset);
  return status;
}

}  // namespace farcall::server
