// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/memory_swapping.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "quota/scheduling/device_scheduler.h"
#include "server/supervisor/options/serve_options.h"
#include "server/worker/worker_process.h"
#include "settings/oversubscribe.h"

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

// Of a vGPU that is to leave its devices: what the driver keeps for a context.
constexpr uint64_t kMayStay = uint64_t{64} << 20;

uint64_t HalfOfHost() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
}

void Add(const SwapScheduler::Totals& some, SwapScheduler::Totals* all) {
  all->count += some.count;
  all->bytes += some.bytes;
}

}  // namespace

std::optional<SwapOptions> SwapOptionsOf(const ServeOptions& options,
                                         const ProbedDevices& devices) {
  if (!options.swaps()) return std::nullopt;
  SwapOptions swap;
  for (const DeviceSnapshot& device : devices.report.devices) {
    uint64_t reserve = ReserveOf(device.total_bytes, devices.choice.kind);
    swap.budget_bytes.push_back(device.total_bytes - std::min(reserve, device.total_bytes / 2));
    swap.lent_bytes.push_back(device.total_bytes +
                              LentBeyond(device.total_bytes, options.oversubscribe_milli));
  }
  swap.host_bytes = options.swap_host_bytes == 0 ? HalfOfHost() : options.swap_host_bytes;
  swap.park_after_ns = options.park_after_seconds * quota::kSecond;
  return swap;
}

MemorySwapping::MemorySwapping(std::optional<SwapOptions> options, SwapScheduler::Ledger ledger,
                               Hooks hooks)
    : hooks_(std::move(hooks)) {
  if (options) scheduler_.emplace(std::move(*options), std::move(ledger), hooks_.scheduler);
}

void MemorySwapping::Join(WorkerId worker, const std::string& vgpu, quota::Priority priority,
                          quota::Ns now) {
  if (scheduler_) scheduler_->Join(worker, vgpu, priority, now);
}

void MemorySwapping::SetPriority(const std::string& vgpu, quota::Priority priority) {
  if (scheduler_) scheduler_->SetPriority(vgpu, priority);
}

void MemorySwapping::Leave(WorkerId worker) {
  if (scheduler_) scheduler_->Leave(worker);
}

SwapScheduler::Room MemorySwapping::Ask(WorkerId worker, const control::Charge& charge,
                                        quota::Ns now, std::string* why) {
  return scheduler_ ? scheduler_->Ask(worker, charge.device, charge.bytes, now, why)
                    : SwapScheduler::Room::kThere;
}

void MemorySwapping::Withdraw(WorkerId worker) {
  if (scheduler_) scheduler_->Withdraw(worker);
}

void MemorySwapping::Tick(quota::Ns now) {
  if (scheduler_) {
    scheduler_->Tick(now);
    AnswerParked();
    AnswerHeldOut();
  }
}

quota::Ns MemorySwapping::WakeAt(quota::Ns now) const {
  return scheduler_ ? scheduler_->WakeAt(now) : INT64_MAX;
}

void MemorySwapping::Park(const control::Park& question, const std::string& vgpu, quota::Ns now) {
  auto refuse = [&](ChangeOutcome outcome, const std::string& why) {
    hooks_.answer({.id = question.id, .outcome = outcome, .why = why});
  };
  if (vgpu.empty()) {
    return refuse(ChangeOutcome::kNoSuchVgpu,
                  "no vGPU is named '" + question.vgpu.str() + "'; farcall ps lists them");
  }
  if (!scheduler_) {
    return refuse(ChangeOutcome::kRefused,
                  "this server swaps no memory: start it with --park-after or --oversubscribe");
  }
  Status parked = scheduler_->Park(vgpu, now);
  if (!parked.ok()) return refuse(ChangeOutcome::kRefused, parked.message());
  parkings_.push_back({question, vgpu});
}

void MemorySwapping::AnswerParked() {
  std::erase_if(parkings_, [this](const Parking& parking) {
    SwapScheduler::Parked parked = scheduler_->ParkedYet(parking.vgpu);
    if (parked == SwapScheduler::Parked::kPending) return false;
    control::QuotaReply answer{.id = parking.question.id};
    if (parked == SwapScheduler::Parked::kStayed) {
      answer.outcome = ChangeOutcome::kRefused;
      answer.why = "it stays: its work did not end in time";
    } else {
      hooks_.parked(parking.question.vgpu.str());
    }
    hooks_.answer(answer);
    return true;
  });
}

void MemorySwapping::HoldOut(const std::string& vgpu, quota::Ns now, Done done) {
  if (!scheduler_) return done("this server swaps no memory");
  if (Status held = scheduler_->HoldOut(vgpu, now); !held.ok()) return done(held.message());
  holding_out_[vgpu] = std::move(done);
}

void MemorySwapping::LetIn(const std::string& vgpu) {
  holding_out_.erase(vgpu);
  if (scheduler_) scheduler_->LetIn(vgpu);
}

void MemorySwapping::AnswerHeldOut() {
  std::vector<std::pair<Done, std::string>> answers;
  for (auto at = holding_out_.begin(); at != holding_out_.end();) {
    const SwapScheduler::Parked parked = scheduler_->ParkedYet(at->first);
    if (parked == SwapScheduler::Parked::kPending) {
      ++at;
      continue;
    }
    std::string refused;
    if (parked == SwapScheduler::Parked::kStayed)
      refused = "its work did not end in time";
    else if (const uint64_t stays = scheduler_->StaysOf(at->first); stays > kMayStay)
      refused = std::to_string(stays) + " bytes of it cannot leave their device";
    if (!refused.empty()) scheduler_->LetIn(at->first);
    answers.emplace_back(std::move(at->second), refused);
    at = holding_out_.erase(at);
  }
  for (const auto& [done, refused] : answers) done(refused);
}

uint64_t MemorySwapping::BytesOut(WorkerId worker, int device, quota::Ns now) const {
  if (!scheduler_) return 0;
  const std::vector<uint64_t> out = scheduler_->Of(worker, now).out_bytes;
  const auto index = static_cast<size_t>(device);
  return index < out.size() ? out[index] : 0;
}

void MemorySwapping::PutVgpu(const std::vector<WorkerId>& members, quota::Ns now,
                             nlohmann::json* told) const {
  if (!scheduler_) return;
  SwapScheduler::Totals out, in;
  quota::Ns waited = 0;
  bool waits = false;
  auto& devices = (*told)["devices"];
  std::vector<uint64_t> swapped(devices.size());
  for (size_t i = 0; i < members.size(); ++i) {
    SwapScheduler::Standing standing = scheduler_->Of(members[i], now);
    nlohmann::json& session = (*told)["sessions"][i];
    session["memory_state"] = standing.state;
    session["waits_for_memory"] = standing.waits;
    waits = waits || standing.waits;
    waited += standing.waited_ns;
    Add(standing.out, &out);
    Add(standing.in, &in);
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

void MemorySwapping::PutTotals(nlohmann::json* status) const {
  if (!scheduler_) return;
  const SwapScheduler& swap = *scheduler_;
  for (size_t i = 0; i < swap.options().budget_bytes.size(); ++i)
    (*status)["devices"][i]["memory_resident_bytes"] = swap.resident_bytes(static_cast<int>(i));
  (*status)["swap"] = {
      {"host_bytes", swap.options().host_bytes}, {"host_used_bytes", swap.host_bytes_used()},
      {"outs", swap.totals_out().count},         {"ins", swap.totals_in().count},
      {"out_bytes", swap.totals_out().bytes},    {"in_bytes", swap.totals_in().bytes},
      {"out_ns", swap.totals_out().ns},          {"in_ns", swap.totals_in().ns}};
}

}  // namespace farcall::server
