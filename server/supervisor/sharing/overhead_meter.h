// SPDX-License-Identifier: Apache-2.0
// What the driver takes for workers beside what they are charged for ahead of their calls:
// contexts, machine code, stacks. The driver says nowhere what it will take, so NVML is asked what
// processes have, once a second, and what is not theirs yet is charged after the fact: as far as
// their quota has room, the rest as soon as it has.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quota/compute_quota.h"
#include "quota/memory/memory_ledger.h"
#include "quota/memory/memory_overhead.h"
#include "server/control/process_memory.h"

namespace farcall::server {

// Time comes in with every call that needs it.
class OverheadMeter {
 public:
  using WorkerId = int;  // its control descriptor
  struct Hooks {
    // Of what the worker is charged for, what lies on the device at most.
    std::function<uint64_t(WorkerId, int device)> own_bytes;
    // Charges its vGPU with as much of it as fits, and has what fits later given back by others.
    std::function<quota::Charge(WorkerId, int device, uint64_t bytes)> charge;
    // Asks what processes hold; false: nobody can be asked.
    std::function<bool(uint64_t id)> ask;
  };

  // `charges`: it counts against quotas; else it is only known.
  OverheadMeter(int devices, bool charges, Hooks hooks);

  // `pid`: as NVML counts.   Before: it has not joined
  void Join(WorkerId worker, int pid);
  // Its charges end with it.
  void Leave(WorkerId worker) { members_.erase(worker); }

  // Asks, if it is time to and somebody is there.
  void Tick(quota::Ns now);
  // The answer, in parts.
  void OnMessage(const control::ProcessMemory& part);
  void OnMessage(const control::ProcessMemoryEnd& end);
  // The worker is about to learn what it has left on the device: a context is charged as one took
  // here before, until the driver's figure is there, so that what it has left does not jump.
  void Expect(WorkerId worker, int device);

  uint64_t bytes(WorkerId worker, int device) const;
  uint64_t charged_bytes(WorkerId worker, int device) const;
  // Of all workers, what no quota has.
  uint64_t uncharged_bytes(int device) const;
  // Why some of it is not known; empty: nothing is missing, so far.
  const std::string& why_unknown() const { return why_unknown_; }

 private:
  struct OnDevice {
    quota::MemoryOverhead overhead;
    quota::Charge charge;
  };
  struct Member {
    uint64_t pid = 0;
    std::vector<OnDevice> on;  // by device
  };
  void Settle(WorkerId worker, Member& member, int device);
  const OnDevice* Find(WorkerId worker, int device) const;

  const int devices_;
  const bool charges_;
  const Hooks hooks_;
  std::map<WorkerId, Member> members_;
  std::vector<uint64_t> context_bytes_;  // by device: the least that anybody had, 0: nobody so far
  uint64_t question_ = 0;
  bool waits_ = false;                                 // for the answer
  std::vector<std::map<uint64_t, uint64_t>> answers_;  // so far, by device: pid -> bytes
  quota::Ns ask_at_ = 0;
  std::string why_unknown_;
};

}  // namespace farcall::server
