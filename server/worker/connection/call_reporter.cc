// SPDX-License-Identifier: Apache-2.0
#include "server/worker/connection/call_reporter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <system_error>
#include <thread>

#include "server/device/driver_output.h"

namespace farcall::server {

namespace {

// Makes no call itself that is not on the list: it would wait for its own answer.
void Report(int listener) {
  char program[16] = {};
  prctl(PR_GET_NAME, program, 0, 0, 0);
  std::set<int> named;
  for (;;) {
    seccomp_notif call{};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;
      return;
    }
    if (named.insert(call.data.nr).second) {
      std::fprintf(OwnLog(),
                   "%s %d: system call %d(0x%llx, 0x%llx, 0x%llx) is not on the list; "
                   "allowed, as --worker-calls report says\n",
                   program, static_cast<int>(getpid()), call.data.nr, call.data.args[0],
                   call.data.args[1], call.data.args[2]);
    }
    seccomp_notif_resp answer{};
    answer.id = call.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

}  // namespace

Status ReportSystemCalls(int listener) {
  try {
    std::thread(Report, listener).detach();
  } catch (const std::system_error& error) {
    close(listener);
    return {Code::kUnavailable, std::string("a thread to report system calls: ") + error.what()};
  }
  return {};
}

}  // namespace farcall::server
