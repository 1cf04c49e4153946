// SPDX-License-Identifier: Apache-2.0
// Device memory beyond the device's: who is swapped out (swap_scheduler.h), and what waits for it.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

// What contexts, modules and libraries take on NVIDIA's driver, which no ledger sees beforehand.
// The CPU device's memory is the programs' alone.
uint64_t ReserveOf(uint64_t device_bytes, const std::string& kind) {
  return kind == "cuda" ? std::max<uint64_t>(uint64_t{512} << 20, device_bytes / 100) : 0;
}

// The leases' figures have a place for it already, if there are any.
void PutWait(quota::Ns waited, nlohmann::json* waits) {
  const std::string reason(quota::ToText(quota::WaitReason::kSwap));
  for (nlohmann::json& wait : *waits) {
    if (wait["reason"] == reason) {
      wait["ns"] = waited;
      return;
    }
  }
  waits->push_back({{"reason", reason}, {"ns", waited}});
}

uint64_t HalfOfHost() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

}  // namespace

std::unique_ptr<SwapScheduler> Supervisor::MakeSwapScheduler() {
  if (!options_.swaps()) {
    return nullptr;
  }
  SwapOptions swap;
  for (const DeviceSnapshot& device : devices_.report.devices) {
    uint64_t reserve = ReserveOf(device.total_bytes, devices_.choice.kind);
    uint64_t budget = device.total_bytes - std::min(reserve, device.total_bytes / 2);
    swap.budget_bytes.push_back(budget);
    swap.lent_bytes.push_back(static_cast<uint64_t>(static_cast<double>(device.total_bytes) *
                                                    options_.oversubscribe_milli / 1000));
  }
  swap.host_bytes = options_.swap_host_bytes == 0 ? HalfOfHost() : options_.swap_host_bytes;
  swap.park_after_ns = options_.park_after_seconds * quota::kSecond;
  SwapScheduler::Ledger ledger;
  ledger.held = [this](int control, int device) { return charges_.charged_bytes(control, device); };
  ledger.held_by_all = [this](int device) {
    uint64_t uncharged = overhead_ == nullptr ? 0 : overhead_->uncharged_bytes(device);
    return charges_.ledger().charged_on_device(device) + uncharged;
  };
  ledger.free = [this](int control, int device) -> uint64_t {
    auto worker = workers_.find(control);
    return worker == workers_.end()
               ? 0
               : charges_.ledger().usage(worker->second->vgpu, device).free_bytes();
  };
  SwapScheduler::Hooks hooks;
  hooks.send = [this](int control, const SwapMessage& message) { (void)Tell(control, message); };
  hooks.end = [this](int control, const std::string& why) {
    EndSession(*workers_.at(control), why);
  };
  hooks.moved = [this](int control, bool out, uint64_t bytes, quota::Ns took) {
    NoteMove(*workers_.at(control), out, bytes, took);
  };
  return std::make_unique<SwapScheduler>(std::move(swap), std::move(ledger), std::move(hooks));
}

void Supervisor::NoteMove(const Worker& worker, bool out, uint64_t bytes, quota::Ns took) {
  nlohmann::json fields = AuditFields(worker);
  fields["bytes"] = bytes;
  fields["seconds"] = static_cast<double>(took) / quota::kSecond;
  spdlog::debug("{}: {} bytes {} the device", worker.who, bytes, out ? "left" : "are back on");
  audit_.Note(out ? "swapped_out" : "swapped_in", std::move(fields));
}

void Supervisor::JoinSwap(const Worker& worker) {
  if (swap_ == nullptr) {
    return;
  }
  const quota::Priority priority = time_.PriorityOf(worker.vgpu, SteadyNow());
  swap_->Join(worker.process.control, worker.vgpu, priority, SteadyNow());
}

int Supervisor::WaitForSwaps(int wait_ms) {
  if (swap_ == nullptr) {
    return wait_ms;
  }
  quota::Ns now = SteadyNow();
  swap_->Tick(now);
  RetryParks();
  quota::Ns at = swap_->WakeAt(now);
  if (at == INT64_MAX) {
    return wait_ms;
  }
  auto until_ms = (at - now + quota::kMillisecond - 1) / quota::kMillisecond;
  return static_cast<int>(std::clamp<quota::Ns>(until_ms, 0, wait_ms));
}

void Supervisor::OnMessage(const control::Park& question) {
  std::string vgpu = VgpuById(question.vgpu.str());
  auto refuse = [&](ChangeOutcome outcome, const std::string& why) {
    control_service_.Send({.id = question.id, .outcome = outcome, .why = why});
  };
  if (vgpu.empty()) {
    return refuse(ChangeOutcome::kNoSuchVgpu,
                  "no vGPU is named '" + question.vgpu.str() + "'; farcall ps lists them");
  }
  if (swap_ == nullptr) {
    return refuse(ChangeOutcome::kRefused,
                  "this server swaps no memory: start it with --park-after or --oversubscribe");
  }
  Status parked = swap_->Park(vgpu, SteadyNow());
  if (!parked.ok()) {
    return refuse(ChangeOutcome::kRefused, parked.message());
  }
  parks_.push_back(question);
}

void Supervisor::RetryParks() {
  std::erase_if(parks_, [this](const control::Park& question) {
    SwapScheduler::Parked parked = swap_->ParkedYet(VgpuById(question.vgpu.str()));
    if (parked == SwapScheduler::Parked::kPending) {
      return false;
    }
    control::QuotaReply answer{.id = question.id};
    if (parked == SwapScheduler::Parked::kStayed) {
      answer.outcome = ChangeOutcome::kRefused;
      answer.why = "it stays: its work did not end in time";
    } else {
      audit_.Note("parked", {{"vgpu", question.vgpu.str()}});
    }
    control_service_.Send(answer);
    return true;
  });
}

void Supervisor::PutSwap(const std::vector<const Worker*>& members, nlohmann::json* told) const {
  if (swap_ == nullptr) {
    return;
  }
  quota::Ns now = SteadyNow();
  SwapScheduler::Totals out, in;
  quota::Ns waited = 0;
  bool waits = false;
  auto& devices = (*told)["devices"];
  std::vector<uint64_t> swapped(devices.size());
  for (size_t i = 0; i < members.size(); ++i) {
    SwapScheduler::Standing standing = swap_->Of(members[i]->process.control, now);
    nlohmann::json& session = (*told)["sessions"][i];
    session["memory_state"] = standing.state;
    session["waits_for_memory"] = standing.waits;
    waits = waits || standing.waits;
    waited += standing.waited_ns;
    out.count += standing.out.count;
    out.bytes += standing.out.bytes;
    in.count += standing.in.count;
    in.bytes += standing.in.bytes;
    for (size_t device = 0; device < swapped.size() && device < standing.out_bytes.size(); ++device)
      swapped[device] += standing.out_bytes[device];
  }
  (*told)["swaps_out"] = out.count;
  (*told)["swaps_in"] = in.count;
  (*told)["swapped_out_bytes"] = out.bytes;
  (*told)["swapped_in_bytes"] = in.bytes;
  for (size_t i = 0; i < swapped.size(); ++i) {
    devices[i]["swapped_bytes"] = swapped[i];
    bool holds = devices[i]["charged_bytes"] != 0;
    if (waits && holds) devices[i]["waits_for"] = quota::ToText(quota::WaitReason::kSwap);
    if (waited != 0 && holds) PutWait(waited, &devices[i]["waits"]);
  }
}

void Supervisor::PutSwapTotals(nlohmann::json* status) const {
  if (swap_ == nullptr) {
    return;
  }
  for (size_t i = 0; i < devices_.report.devices.size(); ++i)
    (*status)["devices"][i]["memory_resident_bytes"] = swap_->resident_bytes(static_cast<int>(i));
  (*status)["swap"] = {
      {"host_bytes", swap_->options().host_bytes}, {"host_used_bytes", swap_->host_bytes_used()},
      {"outs", swap_->totals_out().count},         {"ins", swap_->totals_in().count},
      {"out_bytes", swap_->totals_out().bytes},    {"in_bytes", swap_->totals_in().bytes},
      {"out_ns", swap_->totals_out().ns},          {"in_ns", swap_->totals_in().ns}};
}

}  // namespace farcall::server
