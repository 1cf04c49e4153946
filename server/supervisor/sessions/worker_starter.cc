// SPDX-License-Identifier: Apache-2.0
// A session's worker: one that was started before it, or a new one.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "proto/handshake/fabric_transport.h"
#include "server/supervisor/supervisor.h"
#include "server/supervisor/undo.h"
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

}  // namespace

// A process of MPS has its daemon's environment, one of MIG its instance's. A developer's, and one
// whose system calls are reported, is begun in other ways. Where tenants trust one another, workers
// may write what the rules of a waiting one do not name.
uint32_t Supervisor::WantedWarm() const {
  const bool is_special = options_.modes.Any(DeviceMode::kMps) ||
                          options_.modes.Any(DeviceMode::kMig) || options_.debuggable ||
                          options_.reports_worker_calls || options_.trust_tenants;
  return is_special || !CanWarmUp() ? 0 : options_.warm_workers;
}

// What GpusOf says of a session that has all devices.
std::string Supervisor::WarmGpus() const {
  Worker worker;
  worker.claim = pool_.is_in_pool() ? "any" : "";
  for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
    worker.devices.push_back(static_cast<int>(i));
  }
  return GpusOf(worker);
}

WarmWorkers::Hooks Supervisor::HooksOfWarm() {
  return {[this](bool initialises) { return StartWarm(initialises); },
          [this](WarmWorker warm) { EndWarm(std::move(warm)); },
          [](const std::string& line) { spdlog::info("{}", line); }};
}

Result<WarmWorker> Supervisor::StartWarm(bool initialises) {
  WarmWorker warm;
  warm.place = "warm " + std::to_string(++warm_started_);
  if (users_.separate()) {
    Result<uid_t> taken = users_.Take(warm.place);
    FARCALL_TRY(taken.status());
    warm.user = *taken;
  }
  Result<WorkerOutput::Pipe> errors = output_.Open("a worker without a session");
  Result<WorkerProcess> process = errors.status();
  const std::string folder = shared_folders_.Add(warm.place, warm.user);
  if (errors.ok()) {
    warm.output = errors->id;
    process = StartWorker(
        {"warm", devices_.choice.path, TextOf(KernelVariable(devices_.choice.kind)),
         initialises ? kInitialises : kLoads},
        WarmGpus(), warm.user, {std::string(kSharedFolderVariable) + "=" + folder}, errors->end);
    close(errors->end);
  }
  if (!process.ok()) {
    EndWarm(std::move(warm));
    return process.status();
  }
  warm.process = *process;
  return warm;
}

// It is killed, and holds nothing of a tenant's: its user need not wait for its end.
void Supervisor::EndWarm(WarmWorker warm) {
  if (warm.process.control >= 0) {
    closer_.End(warm.process);
  }
  if (warm.user) {
    users_.GiveBack(warm.place);
  }
  closer_.Remove(shared_folders_.Drop(warm.place));
  output_.End(warm.output);
}

// Its worker may reach the network or a card, which one that was started before may not.
bool Supervisor::WantsFabric(const Hello& hello) const {
  Welcome welcome;
  OfferFabric(hello, &welcome);
  return UsesFabric(kUcxTransport, welcome) || UsesFabric(kVerbsTransport, welcome);
}

std::optional<WarmWorker> Supervisor::TakeWarm(const Worker& worker, const Hello& hello,
                                               const Folders& folders) {
  const bool fits =
      worker.mps_group.empty() && !NeedsOwnEnvironment(hello) && GpusOf(worker) == WarmGpus() &&
      folders.all == warm_caches_ && !WantsFabric(hello) &&
      // Those of one vGPU share a user and a folder, which its first has brought along.
      std::none_of(workers_.begin(), workers_.end(),
                   [&](const auto& other) { return other.second->vgpu == worker.vgpu; });
  return fits ? warm_.Take(Clock::now()) : std::nullopt;
}

void Supervisor::AdoptWarm(const WarmWorker& warm, Worker* worker, Undo* undo) {
  const std::string vgpu = worker->vgpu;
  worker->is_warm = true;
  worker->process = warm.process;
  worker->user = warm.user;
  worker->output = warm.output;
  if (warm.user) {
    users_.Rename(warm.place, vgpu);
    undo->Add([this, vgpu] { users_.GiveBack(vgpu); });
  }
  output_.Rename(warm.output, worker->who);
  undo->Add([this, id = warm.output] { output_.End(id); });
  shared_folders_.Rename(warm.place, vgpu);
  undo->Add([this, vgpu] { closer_.Remove(shared_folders_.Drop(vgpu)); });
}

Status Supervisor::StartCold(Worker* worker, std::vector<std::string> environment, Undo* undo) {
  if (users_.separate()) {
    Result<uid_t> taken = users_.Take(worker->vgpu);
    if (!taken.ok() && warm_.EndOne(Clock::now())) {  // it held the last
      taken = users_.Take(worker->vgpu);
    }
    FARCALL_TRY(taken.status());
    worker->user = *taken;
    undo->Add([this, worker] { users_.GiveBack(worker->vgpu); });
  }
  WorkerOutput::Pipe errors;
  if (!options_.debuggable) {  // a developer's worker writes where the server does
    Result<WorkerOutput::Pipe> opened = output_.Open(worker->who);
    FARCALL_TRY(opened.status());
    errors = *opened;
    worker->output = errors.id;
    undo->Add([this, worker] { output_.End(worker->output); });
  }
  environment.push_back(std::string(kSharedFolderVariable) + "=" +
                        shared_folders_.Add(worker->vgpu, worker->user));
  undo->Add([this, worker] { closer_.Remove(shared_folders_.Drop(worker->vgpu)); });
  Result<WorkerProcess> process =
      StartWorker({}, GpusOf(*worker), worker->user, environment, errors.end);
  close(errors.end);
  FARCALL_TRY(process.status());
  worker->process = *process;
  return {};
}

}  // namespace farcall::server
