// SPDX-License-Identifier: Apache-2.0
// A session's worker: one that was started before it, or a new one; with what it has on this
// machine: a user, a folder in shared memory, a cgroup, a pipe to the log.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/handshake/handshake.h"
#include "server/supervisor/options/serve_options.h"
#include "server/supervisor/processes/closer.h"
#include "server/supervisor/processes/warm_workers.h"
#include "server/supervisor/processes/worker_output.h"
#include "server/supervisor/sessions/session_placement.h"
#include "server/supervisor/sessions/undo.h"
#include "server/worker/sandbox/shared_folders.h"
#include "server/worker/sandbox/worker_cgroups.h"
#include "server/worker/sandbox/worker_users.h"

namespace farcall::server {

// What workers have on this machine, by vGPU. Outlives whoever removes it in the background.
struct WorkerPlaces {
  explicit WorkerPlaces(const ServeOptions& options);

  WorkerOutput output;
  WorkerUsers users;
  SharedFolders folders;
  WorkerCgroups cgroups;
};

// What a session needs of its worker beside being a session.
struct WorkerNeeds {
  std::vector<std::pair<dev_t, ino_t>> caches;  // MakeAllCaches
  const Hello& hello;
  bool uses_fabric = false;              // it may reach the network or a card
  std::vector<std::string> environment;  // of a new one
};

//   Thread  one at a time
class WorkerStarter {
 public:
  // All outlive it. `epoll`: the supervisor's loop; -1: none. `is_in_pool`: its sessions are
  // claims'.
  WorkerStarter(const ServeOptions& options, const ProbedDevices& devices,
                const SessionTable& sessions, const SessionPlacement& placement,
                WorkerPlaces& places, Closer& closer, int epoll);

  // Starts it, or takes one that waits. What it has taken is given back by `undo`.
  //   Errors  kUnavailable
  Status Start(WorkerSession* session, const WorkerNeeds& needs, Undo* undo);
  // Its process is gone.
  void Release(const WorkerSession& session);

  // Of the workers that wait (processes/warm_workers.h).
  bool OnReadable(int fd, Clock::time_point now) { return warm_.OnReadable(fd, now); }
  int Tick(Clock::time_point now, int wait_ms) { return warm_.Tick(now, wait_ms); }
  // None waits any more.
  void Stop() { warm_.Stop(); }
  // How many wait where these options are.
  static uint32_t WantedWarm(const ServeOptions& options);

 private:
  WarmWorkers::Hooks HooksOfWarm();
  Result<WarmWorker> StartWarm(bool initialises);
  void EndWarm(const WarmWorker& warm);
  std::optional<WarmWorker> TakeWarm(const WorkerSession& session, const WorkerNeeds& needs);
  void AdoptWarm(const WarmWorker& warm, WorkerSession* session, Undo* undo);
  Status StartCold(WorkerSession* session, std::vector<std::string> environment, Undo* undo);

  const ServeOptions& options_;
  const ProbedDevices& devices_;
  const SessionTable& sessions_;
  const SessionPlacement& placement_;
  WorkerPlaces& places_;
  Closer& closer_;
  const std::string warm_gpus_;  // what CUDA_VISIBLE_DEVICES says to those that wait
  const std::vector<std::pair<dev_t, ino_t>> warm_caches_;  // those that they reach
  uint64_t warm_started_ = 0;
  WarmWorkers warm_;
};

}  // namespace farcall::server
