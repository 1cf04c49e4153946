// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of sharing: vGPUs, their workers, and who of them has a device's lease.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/handshake.h"
#include "quota/device_scheduler.h"
#include "quota/vgpu_status.h"
#include "server/session/control.h"

namespace farcall::server {

// A class as QuotaRequest has it.
uint8_t OnTheWire(quota::Priority priority);

// Time comes in with every call. The workers of one vGPU have a lease together.
class LeaseDesk {
 public:
  using WorkerId = int;  // its control descriptor
  using Send = std::function<void(WorkerId, const ControlMessage&)>;

  LeaseDesk(int devices, const quota::ComputePolicy& policy, Send send,
            const quota::SchedulerOptions& options = {});

  // The worker works for the vGPU, whose first one says what it is to get on which devices.
  //   Errors  kInvalid, kRefused (quota::Grant's)
  Status Join(const std::string& vgpu, WorkerId worker, const QuotaRequest& request,
              const std::vector<int>& devices, quota::Ns now);
  // The same on all devices.
  Status Join(const std::string& vgpu, WorkerId worker, const QuotaRequest& request, quota::Ns now);
  // It is gone; with the last one, the vGPU.
  void Leave(WorkerId worker, quota::Ns now);
  // A running vGPU's quota on all devices.   Errors  as Join; kInvalid: no such vGPU
  Status Change(const std::string& vgpu, const QuotaRequest& request, quota::Ns now);
  // kWantLease, kLeaseUse, kLeaseRuns, kLeaseDone; false: another message.
  bool Hear(WorkerId worker, const ControlMessage& message, quota::Ns now);
  // What time alone has brought about; call at WakeAt.
  void Tick(quota::Ns now);
  quota::Ns WakeAt(quota::Ns now);

  // Some vGPU has a share, a limit or a class: workers have to take leases.
  bool shares() const { return shares_; }
  // Without memory and queues, which others know.
  std::vector<quota::VgpuStatus> Statuses(quota::Ns now) const;

 private:
  using Flow = quota::DeviceScheduler::Flow;
  struct Device {
    explicit Device(const quota::SchedulerOptions& options) : scheduler(options) {}
    quota::DeviceScheduler scheduler;
    std::map<Flow, std::set<WorkerId>> want, hold;
    quota::Company told_company = quota::Company::kNone;    // to the holder
    quota::Ns told_limit = quota::DeviceScheduler::kNever;  // to the holder
    std::set<WorkerId> late;    // their lease was taken from them, and has not come back
    quota::Ns progress_at = 0;  // of the holder: it got the lease, or something was done
    quota::Ns contended_at = quota::DeviceScheduler::kNever;  // others could run since then
    quota::Ns charged = 0;                                    // to the holder, since then
    std::map<Flow, quota::Ns> patience;  // with a holder that does not give back; less each time
    std::map<WorkerId, quota::Ns> told;  // what each has said it used
  };
  struct Worker {
    Flow flow = 0;
    quota::Ns since = 0;
  };

  Result<quota::ComputeQuota> Judge(const QuotaRequest& request, Flow flow,
                                    const std::vector<int>& devices) const;
  void Give(int device, quota::Ns now);
  // A kernel that does not end keeps the others out no longer than this; a holder that says it
  // makes progress, no longer than twice this. Each such turn halves the next one's.
  static constexpr quota::Ns kRunaway = quota::kSecond;
  static constexpr quota::Ns kLeastPatience = 20 * quota::kMillisecond;
  // Nobody uses more than the time there was, and this for what its clock and ours count
  // differently.
  static constexpr quota::Ns kClockSlack = quota::kSecond;
  static quota::Ns PatienceWith(const Device& state, Flow flow);
  quota::Ns LateAt(const Device& state) const;
  void NoteContention(int device, quota::Ns now);
  void SettleByClock(Device& state, quota::Ns now);
  void ChargeUse(Device& state, WorkerId worker, quota::Ns told, quota::Ns now);
  static bool OthersWant(const Device& state, Flow holder);
  void LetOthersIn(int device, quota::Ns now);
  void TellHolder(int device, quota::Ns now);
  // `done`: kLeaseDone, or nothing of one who has left.
  void GiveBack(int device, Flow flow, WorkerId worker, const ControlMessage& done, quota::Ns now);
  void SendTo(WorkerId worker, ControlType type, int device, quota::Ns amount,
              quota::Company company = quota::Company::kWaiting);

  const quota::ComputePolicy policy_;
  const quota::Ns clock_parts_;  // SchedulerOptions'
  const Send send_;
  std::vector<Device> devices_;
  std::map<std::string, Flow> vgpus_;
  std::map<Flow, std::vector<int>> on_;  // the devices a vGPU has something of
  std::map<WorkerId, Worker> workers_;
  Flow last_flow_ = 0;
  bool shares_ = false;
};

}  // namespace farcall::server
