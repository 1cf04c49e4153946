// SPDX-License-Identifier: Apache-2.0
// What each worker is charged, and who waits for a charge: the memory ledger of the server, credit
// that sessions hold unspent, and its recall for a neighbour of the same vGPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "quota/compute_quota.h"
#include "quota/memory/memory_ledger.h"
#include "server/control/charge.h"
#include "server/leases/swap_scheduler.h"

namespace farcall::server {

// What workers are told of charges.
using ChargeMessage = std::variant<control::ChargeReply, control::Usage, control::RecallCredit>;

// Time comes in with every call. A worker is its control descriptor; of one that has not joined,
// nothing is taken.
class MemoryCharges {
 public:
  using WorkerId = int;
  struct Hooks {
    std::function<bool(WorkerId, const ChargeMessage&)> send;  // false: it was not sent
    // It broke the rules: nothing more of it is read.
    std::function<void(WorkerId, const std::string& why)> shut_out;
    // Whether the device has room for a charge that fits the quota.   kNever: `why` says it.
    std::function<SwapScheduler::Room(WorkerId, const control::Charge&, std::string* why)> room;
    // Its quota has no room for what it waits in `room` for.
    std::function<void(WorkerId)> withdraw;
    // The worker's use of the device is about to change.
    std::function<void(WorkerId, int device)> expect;
    // What the quota has of the driver's own use, for a refusal's text.
    std::function<uint64_t(const std::string& vgpu, int device)> overhead_bytes;
    std::function<void(int device, uint64_t charged_bytes)> charged;  // on the whole device, now
    std::function<void(WorkerId, const std::string& why, uint64_t times)> refused;
  };
  // How long a session has to give credit back.
  static constexpr quota::Ns kRecallPatience = 500 * quota::kMillisecond;

  // `tenant_bytes`: of a device, for all vGPUs of a tenant together; 0: no limit.
  explicit MemoryCharges(Hooks hooks, uint64_t tenant_bytes = 0)
      : hooks_(std::move(hooks)), tenant_bytes_(tenant_bytes) {}
  MemoryCharges(const MemoryCharges&) = delete;

  quota::MemoryLedger& ledger() { return ledger_; }
  const quota::MemoryLedger& ledger() const { return ledger_; }

  // `tenant`: with whose other vGPUs its own is counted; empty: with none.
  void Join(WorkerId worker, const std::string& vgpu, const std::string& tenant = "") {
    members_[worker].vgpu = vgpu;
    members_[worker].tenant = tenant;
  }
  // What it was charged is refunded.
  void Leave(WorkerId worker) { members_.erase(worker); }

  void OnMessage(WorkerId worker, const control::Charge& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::Refund& message, quota::Ns now);
  void OnMessage(WorkerId worker, const control::AskUsage& question, quota::Ns now);
  void OnMessage(WorkerId worker, const control::Unspent& message, quota::Ns now);
  // Tries again what waits.
  void Tick(quota::Ns now);
  bool has_waiting() const { return !waiting_.empty(); }

  uint64_t charged_bytes(WorkerId worker, int device) const;
  // What the worker is charged on the device, for a part of it to become another's; null: nothing.
  quota::Charge* Find(WorkerId worker, int device);
  // Of what it is charged, nothing lies in.
  uint64_t UnspentOf(WorkerId worker, int device) const;
  uint64_t UnspentByOthers(WorkerId worker, int device) const;
  uint64_t UnspentOfVgpu(const std::string& vgpu, int device) const;
  // Asks sessions of the vGPU for unspent credit; false if none could be asked.
  static constexpr WorkerId kNobody = -1;
  bool RecallFrom(const std::string& vgpu, int device, WorkerId but_not = kNobody);
  // So much of `bytes` as the quota has room for, beside what the worker asks for itself.
  quota::Charge ReserveUpTo(WorkerId worker, int device, uint64_t bytes);

 private:
  static constexpr int kMaxRecalls = 4;
  static constexpr size_t kMaxWaiting = 64;  // of one worker: more than it has threads
  struct Member {
    std::string vgpu, tenant;
    std::map<int, quota::Charge> charges;   // by device
    std::map<int, uint64_t> unspent_bytes;  // of them, by the worker's word
    uint64_t refusals = 0;
  };
  struct Waiting {
    WorkerId worker = kNobody;
    control::Charge charge;
    quota::Ns until = 0;
    int recalls = 1;
  };

  bool Answer(WorkerId worker, const control::Charge& charge, bool is_last_try);
  SwapScheduler::Room RoomFor(WorkerId worker, const Member& member, const control::Charge& charge,
                              std::string* why) const;
  // Asks the other sessions of the worker's vGPU for unspent credit; false if there are none.
  bool Recall(WorkerId worker, const control::Charge& charge, quota::Ns now);
  // Asks once more for what the asker was told is free, and waits as long again.
  bool RecallsAgain(Waiting* waiting, quota::Ns now);
  const Member* FindMember(WorkerId worker) const;
  // Of what the tenant may have, by what the vGPUs of all its sessions hold.
  uint64_t LeftToTenant(const Member& member, int device) const;
  // What others of its tenant leave no room for is told as charged.
  quota::Usage UsageOf(const Member& member, int device) const;

  const Hooks hooks_;
  const uint64_t tenant_bytes_;
  quota::MemoryLedger ledger_;  // outlives its charges
  std::map<WorkerId, Member> members_;
  std::vector<Waiting> waiting_;  // for what other sessions give back, or for room
};

}  // namespace farcall::server
