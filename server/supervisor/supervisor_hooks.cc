// SPDX-License-Identifier: Apache-2.0
// How the supervisor's parts reach each other: each part calls a hook, and none knows another.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "server/supervisor/supervisor.h"

namespace farcall::server {

MemoryCharges::Hooks Supervisor::HooksOfCharges() {
  MemoryCharges::Hooks hooks;
  hooks.send = [this](int control, const ChargeMessage& message) {
    return Tell(control, message).ok();
  };
  hooks.shut_out = [this](int control, const std::string& why) {
    ShutOut(sessions_.At(control), why);
  };
  hooks.room = [this](int control, const control::Charge& charge, std::string* why) {
    return swap_.Ask(control, charge, SteadyNow(), why);
  };
  hooks.withdraw = [this](int control) { swap_.Withdraw(control); };
  hooks.expect = [this](int control, int device) { driver_memory_.Expect(control, device); };
  hooks.overhead_bytes = [this](const std::string& vgpu, int device) {
    return driver_memory_.ChargedOf(vgpu, device);
  };
  hooks.charged = [this](int device, uint64_t bytes) { totals_.NoteCharged(device, bytes); };
  hooks.refused = [this](int control, const std::string& why, uint64_t times) {
    if (std::has_single_bit(times))  // the 1st, 2nd, 4th ...
      spdlog::info("{}: {}{}", sessions_.At(control).who, why,
                   times == 1 ? "" : fmt::format(" ({} times)", times));
  };
  return hooks;
}

TimeSharing::Hooks Supervisor::HooksOfTime() {
  TimeSharing::Hooks hooks;
  hooks.send = [this](int control, const LeaseMessage& message) { (void)Tell(control, message); };
  hooks.engage = [](int control) { (void)control::Send(control, control::Sharing{}); };
  hooks.set_priority = [this](const std::string& vgpu, quota::Priority priority) {
    swap_.SetPriority(vgpu, priority);
  };
  return hooks;
}

SwapScheduler::Ledger Supervisor::LedgerOfSwapping() {
  SwapScheduler::Ledger ledger;
  ledger.held = [this](int control, int device) { return charges_.charged_bytes(control, device); };
  ledger.held_by_all = [this](int device) {
    return charges_.ledger().charged_on_device(device) + driver_memory_.Uncharged(device);
  };
  ledger.free = [this](int control, int device) -> uint64_t {
    const WorkerSession* session = sessions_.Find(control);
    return session == nullptr ? 0 : charges_.ledger().usage(session->vgpu, device).free_bytes();
  };
  return ledger;
}

MemorySwapping::Hooks Supervisor::HooksOfSwapping() {
  MemorySwapping::Hooks hooks;
  hooks.scheduler.send = [this](int control, const SwapMessage& message) {
    (void)Tell(control, message);
  };
  hooks.scheduler.end = [this](int control, const std::string& why) {
    EndSession(sessions_.At(control), why);
  };
  hooks.scheduler.moved = [this](int control, bool out, uint64_t bytes, quota::Ns took) {
    NoteMove(sessions_.At(control), out, bytes, took);
  };
  hooks.answer = [this](const control::QuotaReply& reply) { control_service_.Send(reply); };
  hooks.parked = [this](const std::string& name) { audit_.Note("parked", {{"vgpu", name}}); };
  return hooks;
}

void Supervisor::NoteMove(const WorkerSession& worker, bool out, uint64_t bytes, quota::Ns took) {
  nlohmann::json fields = report_.AuditFields(worker);
  fields["bytes"] = bytes;
  fields["seconds"] = static_cast<double>(took) / quota::kSecond;
  spdlog::debug("{}: {} bytes {} the device", worker.who, bytes, out ? "left" : "are back on");
  audit_.Note(out ? "swapped_out" : "swapped_in", std::move(fields));
}

QuotaChanges::Hooks Supervisor::HooksOfChanges() {
  QuotaChanges::Hooks hooks;
  hooks.runs = [this](const std::string& vgpu) { return sessions_.HasVgpu(vgpu); };
  hooks.ceiling_bytes = [this](int device) {
    return policy_.CeilingOf(placement_.BytesOf(device));
  };
  hooks.change_compute = [this](const std::string& vgpu, const QuotaChange& change) {
    return time_.Change(vgpu, change, SteadyNow());
  };
  hooks.changed = [this](const std::string& name, const QuotaChange& change) {
    NoteChange(name, change);
  };
  return hooks;
}

// What is shared counts for each that has it: which of them the driver's figure holds is not known.
DriverMemory::Hooks Supervisor::HooksOfDriverMemory() {
  DriverMemory::Hooks hooks;
  hooks.own_bytes = [this](int control, int device) {
    uint64_t bytes = charges_.charged_bytes(control, device) - charges_.UnspentOf(control, device);
    bytes -= std::min(bytes, swap_.BytesOut(control, device, SteadyNow()));
    return bytes + shared_.BytesHeldBy(control, device);
  };
  hooks.charge = [this](int control, int device, uint64_t bytes) {
    return charges_.ReserveUpTo(control, device, bytes);
  };
  return hooks;
}

int Supervisor::TickShares(int wait_ms) {
  static_assert(quota::DeviceScheduler::kNever == NetScheduler::kNever);
  quota::Ns now = SteadyNow();
  time_.Tick(now);
  net_.Tick(now);
  swap_.Tick(now);
  quota::Ns at = std::min({time_.WakeAt(now), net_.WakeAt(now), swap_.WakeAt(now)});
  if (at == NetScheduler::kNever) return wait_ms;
  quota::Ns until_ms = (at - now + quota::kMillisecond - 1) / quota::kMillisecond;
  return static_cast<int>(std::clamp<quota::Ns>(until_ms, 0, wait_ms));
}

}  // namespace farcall::server
