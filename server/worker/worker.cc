// SPDX-License-Identifier: Apache-2.0
// A worker's start: what it was started as, its user, its sandbox.
#include "server/worker/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <variant>

#include "server/control/control_socket.h"
#include "server/control/memory_file.h"
#include "server/control/messages.h"
#include "server/device/driver_output.h"
#include "server/worker/connection/client_connection.h"
#include "server/worker/process_memory.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/worker_setup.h"
#include "server/worker/sandbox/worker_users.h"
#include "server/worker/session_worker.h"
#include "server/worker/warm_worker.h"
#include "server/worker/worker_probe.h"
#include "transport/handshake.h"
#include "transport/shm/shm_channel.h"

namespace farcall::server {

namespace {

using std::chrono::seconds;

constexpr size_t kMaxSetupBytes = kMaxWelcomeBytes + kMaxHelloBytes + (1u << 20);

// The word of a process that has no session (yet).
void Report(const std::string& why) {
  (void)control::SendToSupervisor(kControlDescriptor, control::ProbeReport{.why = why});
}

// `warm`: what was loaded before the session came; nullptr: nothing.
int Serve(const WarmDevice* warm) {
  control::ToWorker message;
  std::vector<int> descriptors;
  if (!control::Receive(kControlDescriptor, &message, &descriptors).ok() ||
      !std::holds_alternative<control::Setup>(message) || descriptors.size() < 2)
    return 2;
  Result<std::vector<std::byte>> bytes = ReadMemoryFile(descriptors[1], kMaxSetupBytes);
  close(descriptors[1]);
  if (!bytes.ok()) return 2;
  Result<WorkerSetup> setup = DecodeWorkerSetup(*bytes);
  if (!setup.ok()) {
    TellEnd(kControlDescriptor, setup.status().message());
    return 2;
  }
  SandboxRules rules;
  rules.files = TakeFiles(*setup, std::span<const int>(descriptors).subspan(2));
  rules.trust_tenants = setup->trust_tenants;
  rules.is_only_tenant = setup->is_only_tenant;
  rules.reports_calls = setup->reports_worker_calls;
  rules.debuggable = setup->debuggable;
  Result<std::unique_ptr<Channel>> channel =
      TakeConnection(descriptors[0], setup->channel_state, kLogRingBytes);
  if (!channel.ok()) {
    TellEnd(kControlDescriptor, channel.status().message());
    return 2;
  }
  Status confined = warm != nullptr ? NarrowTo(rules.files) : EnterSandbox(rules);
  if (!confined.ok()) {
    (void)SendRefuse(**channel, {confined.code(), confined.message()}, Clock::now() + seconds(2));
    TellEnd(kControlDescriptor, confined.message());
    return 2;
  }
  RunSession(std::move(*setup), rules.files.images, std::move(*channel), warm);
  return 0;
}

int ServeWarm(const WarmStart& start, std::vector<int> caches) {
  WarmDevice device;
  const Status ready = WarmUp(start, std::move(caches), &device);
  Report(ready.message());
  return ready.ok() ? Serve(&device) : 2;
}

}  // namespace

int WorkerMain(const std::vector<std::string>& arguments) {
  if (fcntl(kControlDescriptor, F_GETFD) < 0) {
    return 2;
  }  // not started by a supervisor
  const bool is_warm = arguments.size() >= 4 && arguments[0] == "warm";
  if (is_warm)
    Confine(kWarmWorkerName);
  else
    Confine();
  fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);
  bool probes_mig = arguments.size() >= 2 && arguments[0] == "probe-mig";
  bool probes = probes_mig || (arguments.size() >= 2 && arguments[0] == "probe");
  std::vector<int> caches;
  if (is_warm) caches = OpenAllCaches(arguments[2]);  // which are the server's user's
  const size_t user = is_warm ? 4 : probes ? 2 : 0;
  if (arguments.size() == user + 2 && arguments[user] == "as") {
    Status became = BecomeUser(static_cast<uid_t>(std::stoul(arguments[user + 1])));
    if (!became.ok()) {
      if (probes || is_warm)
        Report(became.message());
      else
        TellEnd(kControlDescriptor, became.message());
      _exit(2);
    }
  }
  EndWithParent();
  const bool is_memory = arguments.size() >= 2 && arguments[0] == "process-memory";
  Status confined = probes || is_memory ? ConfineProbe(arguments[1]) : Status();
  if (!confined.ok()) {
    TellEnd(kControlDescriptor, confined.message());
    _exit(2);
  }
#ifdef FARCALL_NVML
  if (is_memory) _exit(TellProcessMemory(arguments[1], {arguments.begin() + 2, arguments.end()}));
#endif
  if (probes) dup2(STDERR_FILENO, STDOUT_FILENO);  // what the driver prints is for the server's log
  int code = probes_mig ? ProbeMigDevices(arguments[1])
             : probes   ? ProbeDevices(arguments[1])
             : is_warm  ? ServeWarm({arguments[1], arguments[2], arguments[3] == kInitialises},
                                    std::move(caches))
                        : Serve(nullptr);
  LogPendingErrors();
  _exit(code);  // the driver's own teardown is the kernel's work: nothing of the session is to
                // outlive it
}

}  // namespace farcall::server
