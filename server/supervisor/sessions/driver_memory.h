// SPDX-License-Identifier: Apache-2.0
// What the driver takes for sessions beside their allocations (sharing/overhead_meter.h): asks the
// process that asks NVML, and charges it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/control/messages.h"
#include "server/supervisor/processes/closer.h"
#include "server/supervisor/processes/helper_process.h"
#include "server/supervisor/sessions/session_table.h"
#include "server/supervisor/sharing/overhead_meter.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

//   Thread  one at a time
class DriverMemory {
 public:
  struct Hooks {
    // As OverheadMeter::Hooks.
    std::function<uint64_t(int control, int device)> own_bytes;
    std::function<quota::Charge(int control, int device, uint64_t bytes)> charge;
  };

  // All outlive it. `charges`: it counts against quotas; else it is only known. `epoll`: the
  // supervisor's loop, which calls OnReadable. Nothing is asked of a device that is not NVIDIA's:
  // contexts and programs of a software device are in no device's memory.
  DriverMemory(const ProbedDevices& devices, bool charges, const SessionTable& sessions,
               Closer& closer, int epoll, Hooks hooks);

  void Join(const WorkerSession& session);
  // Its charges end with it.
  void Leave(int control);
  // Asks, if it is time to and somebody is there.
  void Tick(quota::Ns now);
  // The session is about to learn what it has left on the device.
  void Expect(int control, int device);
  HelperProcess::Read OnReadable(int fd) { return helper_.OnReadable(fd); }
  // There is no session to be asked about.
  void EndHelper() { helper_.End(); }

  uint64_t ChargedOf(int control, int device) const;
  // Of all sessions of the vGPU: as it is, or what its quota has of it.
  uint64_t BytesOf(const std::string& vgpu, int device) const;
  uint64_t ChargedOf(const std::string& vgpu, int device) const;
  // Of all sessions, what no quota has.
  uint64_t Uncharged(int device) const;

 private:
  bool Ask(uint64_t id);
  void OnAnswer(const control::FromProcessMemory& message);

  const ProbedDevices& devices_;
  const SessionTable& sessions_;
  HelperProcess helper_;
  bool cannot_ask_ = false;               // the helper cannot be started
  std::unique_ptr<OverheadMeter> meter_;  // null: a device without any
};

}  // namespace farcall::server
