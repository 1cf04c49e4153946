// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of sharing: vGPUs, their workers, and who of them has a device's lease.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "proto/handshake/handshake.h"
#include "quota/scheduling/device_scheduler.h"
#include "quota/scheduling/use_history.h"
#include "quota/scheduling/use_union.h"
#include "quota/vgpu_status.h"
#include "server/control/lease.h"

namespace farcall::server {

// A class as QuotaRequest has it.
uint8_t OnTheWire(quota::Priority priority);

// What workers are told of leases.
using LeaseMessage = std::variant<control::Lease, control::LeaseMore, control::LeaseLimit>;

// Time comes in with every call. The workers of one vGPU have a lease together.
class LeaseScheduler {
 public:
  using WorkerId = int;  // its control descriptor
  using Send = std::function<void(WorkerId, const LeaseMessage&)>;

  LeaseScheduler(int devices, const quota::ComputePolicy& policy, Send send,
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
  // What workers say. Of one that has not joined, or of no device here, nothing is heard.
  void OnMessage(WorkerId worker, const control::WantLease& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::LeaseUse& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::LeaseRuns& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::LeaseDone& message, quota::Ns now);
  // What time alone has brought about; call at WakeAt.
  void Tick(quota::Ns now);
  quota::Ns WakeAt(quota::Ns now);

  // Some vGPU has a share, a limit or a class: workers have to take leases.
  bool shares() const { return shares_; }
  // Nanoseconds in which anything of any vGPU ran on the device, and thousandths of the last
  // second. Less than the sum of the vGPUs' where one's kernel runs beside another's.
  struct DeviceUse {
    quota::Ns busy_ns = 0;
    uint32_t busy_milli = 0;
  };
  DeviceUse UseOf(int device, quota::Ns now) const;
  // Without memory and queues, which others know.
  std::vector<quota::VgpuStatus> Statuses(quota::Ns now) const;

 private:
  using Flow = quota::DeviceScheduler::Flow;
  // What a worker has said it used, and where on the clock the last of it is placed.
  struct Reported {
    quota::Ns in_all = 0;
    quota::Ns from = 0, until = 0;
  };
  struct Device {
    explicit Device(const quota::SchedulerOptions& options) : scheduler(options) {}
    quota::DeviceScheduler scheduler;
    std::map<Flow, std::set<WorkerId>> want, hold;
    quota::Company notified_company = quota::Company::kNone;    // to the holder
    quota::Ns notified_limit = quota::DeviceScheduler::kNever;  // to the holder
    std::set<WorkerId> late;    // their lease was taken from them, and has not come back
    quota::Ns progress_at = 0;  // of the holder: it got the lease, or something was done
    quota::Ns contended_at = quota::DeviceScheduler::kNever;  // others could run since then
    quota::Ns charged = 0;                                    // to the holder, since then
    std::map<Flow, quota::Ns> patience;  // with a holder that does not give back; less each time
    std::map<WorkerId, Reported> reported;
    std::map<Flow, quota::UseUnion> used;  // of those with several workers
    quota::UseUnion used_by_any;           // whatever vGPU it was
    quota::Ns busy_ns = 0;
    quota::UseHistory history;  // of busy_ns
  };
  struct Worker {
    Flow flow = 0;
    quota::Ns since = 0;
  };

  // The worker's vGPU and the device it speaks of.
  struct Speaker {
    Flow flow;
    Device& state;
    bool holds;  // the worker has the device's lease
  };
  std::optional<Speaker> Find(WorkerId worker, int32_t device);
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
  bool HasSeveral(Flow flow) const;
  quota::Company CompanyOfHolder(const Device& state) const;
  static quota::Ns PatienceWith(const Device& state, Flow flow);
  quota::Ns LateAt(const Device& state) const;
  void NoteContention(int device, quota::Ns now);
  void SettleByClock(Device& state, quota::Ns now);
  void ChargeUse(Device& state, WorkerId worker, quota::Ns told, quota::Ns now);
  static bool OthersWant(const Device& state, Flow holder);
  void LetOthersIn(int device, quota::Ns now);
  void TellHolder(int device, quota::Ns now);
  // `done`: what the worker said with it, or nothing of one who has left.
  void GiveBack(int device, Flow flow, WorkerId worker, const control::LeaseDone& done,
                quota::Ns now);

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
