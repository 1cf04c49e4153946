// SPDX-License-Identifier: Apache-2.0
// `farcall serve`, once its options are known: finds devices, listens, serves, reports.
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "listener/descriptors.h"
#include "proto/printable.h"
#include "server/state/objects/image_store.h"
#include "server/supervisor/images/image_sweep.h"
#include "server/supervisor/options/control_path.h"
#include "server/supervisor/options/log_format.h"
#include "server/supervisor/start_failure.h"
#include "server/supervisor/supervisor.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/system_calls.h"
#include "settings/exit_code.h"
#include "transport/shm/shm_socket.h"
#include "transport/url.h"
#include "transport/verbs/verbs_choice.h"

namespace farcall::server {

namespace {

// The URLs are those with the ports that were given.
class Ports {
 public:
  Ports(const ServeOptions& options, Supervisor* supervisor, HandshakeServer* handshakes,
        std::vector<std::string>* urls)
      : options_(options), supervisor_(supervisor), handshakes_(handshakes), urls_(urls) {}

  Status ListenAll() {
    const std::vector<std::string> wanted =
        options_.listen.empty() ? std::vector<std::string>{kDefaultListenUrl} : options_.listen;
    for (const std::string& url : wanted) FARCALL_TRY(ListenOn(url));
    if (options_.shm.empty()) return {};
    if (options_.shm != kShmAuto) return ListenOn("shm://" + options_.shm);
    FARCALL_TRY(MakeControlFolder().status());
    return ListenOn("shm://" + ShmPathOf((*urls_)[0]));
  }

 private:
  Status ListenOn(const std::string& url) {
    const bool is_tls = url.rfind("tls://", 0) == 0;
    if (!is_tls && !options_.plaintext && !IsLoopbackUrl(url)) {
      spdlog::warn(
          "{}: sessions from other hosts are refused there: listen on tls://, or give --plaintext",
          Printable(url));
    }
    Result<std::unique_ptr<Listener>> listener = Listen(is_tls ? "tcp" + url.substr(3) : url);
    if (listener.ok() && is_tls) listener = supervisor_->OpenTls(std::move(*listener));
    FARCALL_TRY(listener.status());
    // A socket for shared memory is this user's alone, unless something says who may in.
    const bool has_rule = !options_.tokens.empty() || !options_.shm_users.empty();
    if (url.rfind(kShmScheme, 0) == 0) {
      const std::string path = url.substr(kShmScheme.size());
      FARCALL_TRY(has_rule ? OpenToUsers(path) : Status());
      supervisor_->OfferSharedMemoryAt(path);
    }
    urls_->push_back((*listener)->Url());
    handshakes_->Listen(std::move(*listener));
    return {};
  }

  static constexpr std::string_view kShmScheme = "shm://";
  const ServeOptions& options_;
  Supervisor* const supervisor_;
  HandshakeServer* const handshakes_;
  std::vector<std::string>* const urls_;
};

// Of the URLs, what a pool may send its clients to.
std::vector<std::string> ForOtherHosts(std::vector<std::string> urls) {
  std::erase_if(urls, [](const std::string& url) { return url.rfind("shm://", 0) == 0; });
  return urls;
}

Status CheckMemory(const ServeOptions& options, const DeviceReport& report) {
  uint64_t most = 0;
  for (const DeviceSnapshot& device : report.devices) most = std::max(most, device.total_bytes);
  return options.memory_bytes <= most
             ? Status()
             : Status(Code::kInvalid, "--mem " + std::to_string(options.memory_bytes) +
                                          ": the largest device has " + std::to_string(most) +
                                          " bytes");
}

// The process that serves them starts later, and its port is not this one's to hand over: whether
// it could listen is asked now, while somebody reads the answer.
Status CheckMetricsAddress(const std::string& address) {
  if (address.empty()) return {};
  Result<std::unique_ptr<Listener>> listener = Listen("tcp://" + address);
  return listener.ok() ? Status()
                       : Status(listener.status().code(),
                                Quoted(address) + ": " + listener.status().message());
}

// Why the server does not start, and the exit code that says so; kExitOk: nothing against it.
struct Obstacle {
  int code = kExitOk;
  std::string message;

  Obstacle() = default;
  Obstacle(int exit_code, const Status& status, const std::string& what = "")
      : code(status.ok() ? kExitOk : exit_code), message(what + status.message()) {}
  explicit operator bool() const { return code != kExitOk; }
};

void StartLog(const ServeOptions& options) {
  auto logger = spdlog::stderr_color_mt("farcall-server");
  spdlog::set_default_logger(logger);
  spdlog::set_formatter(MakeLogFormatter());
  spdlog::set_level(spdlog::level::from_str(options.log_level));
}

// What helpers, probes and workers inherit, and what they must not see.
void PrepareProcess(const ServeOptions& options, const std::vector<DeviceChoice>& choices) {
  for (const DeviceChoice& choice : choices)
    if (!choice.profile.empty()) setenv(choice.profile_variable, choice.profile.c_str(), 1);
  if (!options.verbs.empty()) setenv(kVerbsDeviceVariable, options.verbs.c_str(), 1);
  if (options.reports_worker_calls)
    setenv(kReportsCallsVariable, "report", 1);
  else
    unsetenv(kReportsCallsVariable);
  sigset_t signals = HandledSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  if (!options.debuggable) HideMemory();  // tokens and keys are in it
}

Obstacle FindDevices(const ServeOptions& options, const std::vector<DeviceChoice>& choices,
                     std::optional<ProbedDevices>* found) {
  std::optional<uid_t> user;
  if (options.worker_users.count != 0) user = options.worker_users.first;
  const bool in_pool = !options.pool.url.empty();
  const bool is_mig = options.modes.Any(DeviceMode::kMig);
  // Before a driver is asked that knows nothing of instances.
  if (is_mig) {
    const Status can = CheckModes(options.modes, 1, choices.front().kind, in_pool);
    if (!can.ok()) return {kExitUsage, can};
  }
  Result<ProbedDevices> devices = is_mig ? ProbeMigDevices(choices, options.gpus, user)
                                         : ProbeDevices(choices, options.gpus, user);
  if (!devices.ok()) return {kExitNoDevice, devices.status()};
  const Status can = CheckModes(options.modes, static_cast<int>(devices->report.devices.size()),
                                devices->choice.kind, in_pool);
  if (!can.ok()) return {kExitUsage, can};
  const Status fits = CheckMemory(options, devices->report);
  if (!fits.ok()) return {kExitUsage, fits};
  *found = std::move(*devices);
  return {kExitCannotListen, CheckMetricsAddress(options.metrics), "--metrics "};
}

Obstacle OpenParts(Supervisor& supervisor) {
  if (Obstacle audit{kExitUsage, supervisor.OpenAudit()}) return audit;
  if (Obstacle cgroups{kExitUsage, supervisor.OpenCgroups(), "--worker-memory: "}) return cgroups;
  return {kExitNoDevice, supervisor.OpenMps()};
}

// Where it listens by now, as others reach it.
Obstacle OpenToOthers(const ServeOptions& options, Supervisor& supervisor,
                      HandshakeServer& handshakes, std::vector<std::string>* urls) {
  const Status listens = Ports(options, &supervisor, &handshakes, urls).ListenAll();
  if (!listens.ok())
    return {listens.code() == Code::kInvalid ? kExitUsage : kExitCannotListen, listens};
  if (Obstacle start{kExitFailure, handshakes.Start()}) return start;
  return {kExitFailure, supervisor.OpenControl((*urls)[0]), "--metrics " + options.metrics + ": "};
}

void SayReady(const ServeOptions& options, const ProbedDevices& devices,
              const std::vector<std::string>& urls) {
  std::string all = urls[0];
  for (size_t i = 1; i < urls.size(); ++i) all += "," + urls[i];
  std::printf("farcall: serving %zu device(s) on %s (%s: %s)\n", devices.report.devices.size(),
              all.c_str(), devices.choice.kind.c_str(), devices.report.devices[0].name.c_str());
  std::fflush(stdout);
  if (devices.choice.kind == "dry") {
    spdlog::info("dry device: no kernel is executed, nothing a program computes here is a result");
  } else if (devices.choice.kind == "cpu-skip") {
    spdlog::warn(
        "sass = skip: a kernel without PTX is not executed, what depends on it is no result");
  }
  const uint32_t users = options.worker_users.count;
  if (users != 0 && users < options.max_sessions) {
    spdlog::warn("worker users: {} for at most {} sessions: one vGPU more than users is refused",
                 users, options.max_sessions);
  }
}

}  // namespace

int Serve(const ServeOptions& options) {
  StartLog(options);
  if (Obstacle wrong{kExitUsage, CheckServeOptions(options)})
    return SayWhyNot(wrong.code, wrong.message);
  Result<std::vector<DeviceChoice>> choices = DeviceChoices(options.device);
  if (!choices.ok()) return SayWhyNot(kExitUsage, choices.status().message());
  PrepareProcess(options, *choices);
  std::optional<ProbedDevices> devices;
  if (Obstacle none = FindDevices(options, *choices, &devices))
    return SayWhyNot(none.code, none.message);
  Supervisor supervisor(options, *devices);
  if (Obstacle closed = OpenParts(supervisor)) return SayWhyNot(closed.code, closed.message);
  HandshakeServer handshakes(
      // A pool's clients show a lease.
      !options.tokens.empty() && options.pool.url.empty(),
      [&supervisor](std::unique_ptr<Channel> channel, const ReceivedHello& heard,
                    const Listener& listener) {
        supervisor.Admit(std::move(channel), heard, listener.Url().rfind("tls://", 0) == 0);
      });
  std::vector<std::string> urls;
  if (Obstacle deaf = OpenToOthers(options, supervisor, handshakes, &urls))
    return SayWhyNot(deaf.code, deaf.message);
  ImageSweep images(ImageBaseDirectory(), options.image_store_bytes,
                    options.worker_users.count != 0);
  if (Obstacle alone{kExitFailure, supervisor.OpenPool(ForOtherHosts(urls))})
    return SayWhyNot(alone.code, alone.message);
  SayReady(options, *devices, urls);
  int code = supervisor.Run(handshakes);
  if (options.report.empty()) return code;
  const Status written = WriteReport(
      options.report,
      ToJson(supervisor.totals(), devices->choice.kind, devices->report.devices[0].name));
  return written.ok() ? code : SayWhyNot(kExitFailure, written.message());
}

}  // namespace farcall::server
