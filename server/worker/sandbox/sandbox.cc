// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "server/confine/landlock.h"
#include "server/worker/sandbox/system_calls.h"

namespace farcall::server {

void Confine(const char* name) {
  prctl(PR_SET_NAME, name, 0, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  HideMemory();
  setsid();  // a worker has no terminal that it could type into
  rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);  // the terminal's; the supervisor decides
  signal(SIGTERM, SIG_IGN);
}

void HideMemory() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void ShowMemory() {
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

void EndWithParent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

void DropCapabilities(uint64_t kept) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
    if ((kept >> capability & 1) == 0) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct all[2] = {}, rest[2] = {};
  syscall(SYS_capget, &header, all);
  for (size_t half = 0; half < 2; ++half) {
    rest[half].permitted = all[half].permitted & static_cast<uint32_t>(kept >> 32 * half);
    rest[half].effective = rest[half].permitted;
  }
  syscall(SYS_capset, &header, rest);
}

Status EnterSandbox(const SandboxRules& rules) {
  const bool has_rules = LandlockRules::Version() > 0;
  if (has_rules)
    FARCALL_TRY(ConfineFiles(rules.files));
  else if (!rules.trust_tenants && !rules.is_only_tenant)
    return {Code::kUnavailable, kNoLandlock};
  DropCapabilities();
  if (rules.debuggable) ShowMemory();
  CallRules calls;
  calls.sockets = rules.files.uses_ucx ? CallRules::Sockets::kUcx
                  : rules.files.is_mps ? CallRules::Sockets::kUnix
                                       : CallRules::Sockets::kNone;
  calls.reports = rules.reports_calls;
  return FilterSystemCalls(calls);
}

}  // namespace farcall::server
