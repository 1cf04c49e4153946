// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/worker_starter.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "proto/log_line.h"
#include "server/state/objects/image_store.h"
#include "server/supervisor/images/tenant_folders.h"
#include "server/worker/warm_worker.h"
#include "server/worker/worker.h"
#include "transport/handshake.h"

namespace farcall::server {

namespace {

// Variables that the device library reads as it is loaded have to be there before. Lazy loading,
// for which PyTorch asks, is what drivers do anyway.
bool NeedsOwnEnvironment(const Hello& hello) {
  return std::any_of(hello.environment.begin(), hello.environment.end(), [](const auto& entry) {
    const auto& [name, value] = entry;
    return IsForwardedVariable(name) && !(name == "CUDA_MODULE_LOADING" && value == "LAZY");
  });
}

const char* TextOf(const char* text) {
  return text == nullptr ? "" : text;
}

// A line of ours, the device's among them, keeps its level; what else a worker writes is a warning.
void LogOfWorker(spdlog::logger& log, const std::string& who, const std::string& line) {
  const LogLineParts parts = ParseLogLine(line);
  if (parts.severity == LogSeverity::kOff) return log.warn("{}: {}", who, line);
  log.log(spdlog::level::from_str(LogSeverityName(parts.severity)), "{}: {}: {}", who,
          parts.component, parts.text);
}

}  // namespace

WorkerPlaces::WorkerPlaces(const ServeOptions& options)
    : output(
          [log = spdlog::default_logger()->clone("farcall-worker")](
              const std::string& who, const std::string& line) { LogOfWorker(*log, who, line); }),
      users(options.worker_users),
      folders(SharedFolderParent()),
      cgroups(options.worker_memory_bytes) {}

WorkerStarter::WorkerStarter(const ServeOptions& options, const ProbedDevices& devices,
                             const SessionTable& sessions, const SessionPlacement& placement,
                             WorkerPlaces& places, Closer& closer, int epoll)
    : options_(options),
      devices_(devices),
      sessions_(sessions),
      placement_(placement),
      places_(places),
      closer_(closer),
      warm_gpus_(placement.GpusOfAll(!options.pool.url.empty())),
      warm_caches_(MakeAllCaches(ImageBaseDirectory(), KernelVariable(devices.choice.kind))),
      warm_(WantedWarm(options), epoll, HooksOfWarm()) {}

// A process of MPS has its daemon's environment, one of MIG its instance's. A developer's, and one
// whose system calls are reported, is begun in other ways. Where tenants trust one another, workers
// may write what the rules of a waiting one do not name.
uint32_t WorkerStarter::WantedWarm(const ServeOptions& options) {
  const bool is_special = options.modes.Any(DeviceMode::kMps) ||
                          options.modes.Any(DeviceMode::kMig) || options.debuggable ||
                          options.reports_worker_calls || options.trust_tenants;
  return is_special || !CanWarmUp() ? 0 : options.warm_workers;
}

WarmWorkers::Hooks WorkerStarter::HooksOfWarm() {
  return {[this](bool initialises) { return StartWarm(initialises); },
          [this](const WarmWorker& warm) { EndWarm(warm); },
          [](const std::string& line) { spdlog::info("{}", line); }};
}

Result<WarmWorker> WorkerStarter::StartWarm(bool initialises) {
  WarmWorker warm;
  warm.place = "warm " + std::to_string(++warm_started_);
  if (places_.users.separate()) {
    Result<uid_t> taken = places_.users.Take(warm.place);
    FARCALL_TRY(taken.status());
    warm.user = *taken;
  }
  Result<WorkerOutput::Pipe> errors = places_.output.Open("a worker without a session");
  Result<WorkerProcess> process = errors.status();
  const std::string folder = places_.folders.Add(warm.place, warm.user);
  if (errors.ok()) {
    warm.output = errors->id;
    process = StartWorker(
        {"warm", devices_.choice.path, TextOf(KernelVariable(devices_.choice.kind)),
         initialises ? kInitialises : kLoads},
        warm_gpus_, warm.user, {std::string(kSharedFolderVariable) + "=" + folder}, errors->end);
    close(errors->end);
  }
  if (!process.ok()) {
    EndWarm(warm);
    return process.status();
  }
  warm.process = *process;
  return warm;
}

// It is killed, and holds nothing of a tenant's: its user need not wait for its end.
void WorkerStarter::EndWarm(const WarmWorker& warm) {
  if (warm.process.control >= 0) closer_.End(warm.process);
  if (warm.user) places_.users.GiveBack(warm.place);
  closer_.Remove(places_.folders.Drop(warm.place));
  places_.output.End(warm.output);
}

std::optional<WarmWorker> WorkerStarter::TakeWarm(const WorkerSession& session,
                                                  const WorkerNeeds& needs) {
  const bool fits = session.mps_group.empty() && !NeedsOwnEnvironment(needs.hello) &&
                    placement_.GpusOf(session) == warm_gpus_ && needs.caches == warm_caches_ &&
                    !needs.uses_fabric &&
                    // Those of one vGPU share a user and a folder, which its first has brought
                    // along.
                    !sessions_.HasVgpu(session.vgpu);
  return fits ? warm_.Take(Clock::now()) : std::nullopt;
}

void WorkerStarter::AdoptWarm(const WarmWorker& warm, WorkerSession* session, Undo* undo) {
  const std::string vgpu = session->vgpu;
  session->is_warm = true;
  session->process = warm.process;
  session->user = warm.user;
  session->output = warm.output;
  if (warm.user) {
    places_.users.Rename(warm.place, vgpu);
    undo->Add([this, vgpu] { places_.users.GiveBack(vgpu); });
  }
  places_.output.Rename(warm.output, session->who);
  undo->Add([this, id = warm.output] { places_.output.End(id); });
  places_.folders.Rename(warm.place, vgpu);
  undo->Add([this, vgpu] { closer_.Remove(places_.folders.Drop(vgpu)); });
}

Status WorkerStarter::StartCold(WorkerSession* session, std::vector<std::string> environment,
                                Undo* undo) {
  if (places_.users.separate()) {
    Result<uid_t> taken = places_.users.Take(session->vgpu);
    if (!taken.ok() && warm_.EndOne(Clock::now()))  // it held the last
      taken = places_.users.Take(session->vgpu);
    FARCALL_TRY(taken.status());
    session->user = *taken;
    undo->Add([this, session] { places_.users.GiveBack(session->vgpu); });
  }
  WorkerOutput::Pipe errors;
  if (!options_.debuggable) {  // a developer's worker writes where the server does
    Result<WorkerOutput::Pipe> opened = places_.output.Open(session->who);
    FARCALL_TRY(opened.status());
    errors = *opened;
    session->output = errors.id;
    undo->Add([this, session] { places_.output.End(session->output); });
  }
  environment.push_back(std::string(kSharedFolderVariable) + "=" +
                        places_.folders.Add(session->vgpu, session->user));
  undo->Add([this, session] { closer_.Remove(places_.folders.Drop(session->vgpu)); });
  Result<WorkerProcess> process =
      StartWorker({}, placement_.GpusOf(*session), session->user, environment, errors.end);
  close(errors.end);
  FARCALL_TRY(process.status());
  session->process = *process;
  return {};
}

Status WorkerStarter::Start(WorkerSession* session, const WorkerNeeds& needs, Undo* undo) {
  if (std::optional<WarmWorker> warm = TakeWarm(*session, needs)) {
    AdoptWarm(*warm, session, undo);
    return {};
  }
  return StartCold(session, needs.environment, undo);
}

void WorkerStarter::Release(const WorkerSession& session) {
  if (session.user) places_.users.GiveBack(session.vgpu);
  closer_.EndGroup(places_.cgroups.Drop(session.vgpu));
  closer_.Remove(places_.folders.Drop(session.vgpu));
  places_.output.End(session.output);
}

}  // namespace farcall::server
