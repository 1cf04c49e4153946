// SPDX-License-Identifier: Apache-2.0
// Starting a worker: our own binary, again, with its end of a control socket.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "proto/status.h"
#include "server/device/device_library.h"

namespace farcall::server {

struct WorkerProcess {
  pid_t pid = -1;
  int pid_fd = -1;
  int control = -1;  // the supervisor's end, non-blocking
};

// `arguments` follow "worker", and then its user, if it gets one. `gpus`, if not empty, becomes
// CUDA_VISIBLE_DEVICES.   Errors kUnavailable
//   Thread  any
// `more`: NAME=VALUE, in its environment as well. `standard_error`: a descriptor; -1: ours.
Result<WorkerProcess> StartWorker(std::vector<std::string> arguments, const std::string& gpus,
                                  std::optional<uid_t> user = {},
                                  const std::vector<std::string>& more = {},
                                  int standard_error = -1);

// Another program with its end of a control socket there and `inherited` after it, as descriptors
// kControlDescriptor and the next. `arguments` begin with its name.   Errors  kUnavailable
Result<WorkerProcess> StartProgram(const std::string& path, std::vector<std::string> arguments,
                                   int inherited);

// By its descriptor: a number may be another process's by now.
void KillProcess(const WorkerProcess& process);

// Kills it, reaps it, closes what is ours of it.
//   Returns  its status, as waitpid has it
int EndProcess(WorkerProcess* process);

struct ProbedDevices {
  DeviceChoice choice;
  DeviceReport report;
  // What a worker's CUDA_VISIBLE_DEVICES says to see a device; empty: their numbers do.
  std::vector<std::string> visible;
};
// Asks each choice in a process of its own (the supervisor never loads a driver) and takes the
// first that has devices. `user`: it has to work for that one too.
//   Errors  kUnavailable, with what each said
Result<ProbedDevices> ProbeDevices(const std::vector<DeviceChoice>& choices,
                                   const std::string& gpus, std::optional<uid_t> user = {});
// The same of the MIG instances of those GPUs, each as a device of its own.
Result<ProbedDevices> ProbeMigDevices(const std::vector<DeviceChoice>& choices,
                                      const std::string& gpus, std::optional<uid_t> user = {});

}  // namespace farcall::server
