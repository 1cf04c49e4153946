// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/memory_charges.h"

#include <algorithm>
#include <set>
#include <utility>

namespace farcall::server {

const MemoryCharges::Member* MemoryCharges::FindMember(WorkerId worker) const {
  auto found = members_.find(worker);
  return found == members_.end() ? nullptr : &found->second;
}

void MemoryCharges::OnMessage(WorkerId worker, const control::Refund& message, quota::Ns) {
  if (quota::Charge* charge = Find(worker, message.device)) charge->RefundSome(message.bytes);
}

void MemoryCharges::OnMessage(WorkerId worker, const control::Unspent& message, quota::Ns) {
  if (auto member = members_.find(worker); member != members_.end())
    member->second.unspent_bytes[message.device] = message.bytes;
}

void MemoryCharges::OnMessage(WorkerId worker, const control::AskUsage& question, quota::Ns) {
  const Member* member = FindMember(worker);
  if (member == nullptr) return;
  hooks_.expect(worker, question.device);
  const quota::Usage usage = UsageOf(*member, question.device);
  (void)hooks_.send(
      worker, control::Usage{.id = question.id,
                             .unspent_by_others_bytes = UnspentByOthers(worker, question.device),
                             .charged_bytes = usage.charged_bytes,
                             .quota_bytes = usage.quota_bytes});
}

void MemoryCharges::OnMessage(WorkerId worker, const control::Charge& message, quota::Ns now) {
  if (FindMember(worker) == nullptr) return;
  auto waiting = std::count_if(waiting_.begin(), waiting_.end(),
                               [worker](const Waiting& each) { return each.worker == worker; });
  if (static_cast<size_t>(waiting) >= kMaxWaiting) {
    return hooks_.shut_out(
        worker, "more than " + std::to_string(kMaxWaiting) + " charges of it wait for an answer");
  }
  bool is_host = message.device == quota::kHostMemory;
  if (Answer(worker, message, is_host) || Recall(worker, message, now)) return;
  if (!Answer(worker, message, true))  // for room
    waiting_.push_back({worker, message, now});
}

SwapScheduler::Room MemoryCharges::RoomFor(WorkerId worker, const Member& member,
                                           const control::Charge& charge, std::string* why) const {
  if (charge.device == quota::kHostMemory) return SwapScheduler::Room::kThere;
  if (ledger_.usage(member.vgpu, charge.device).free_bytes() < charge.bytes) {
    hooks_.withdraw(worker);
    return SwapScheduler::Room::kThere;  // the quota refuses it
  }
  return hooks_.room(worker, charge, why);
}

bool MemoryCharges::Answer(WorkerId worker, const control::Charge& charge, bool is_last_try) {
  Member& member = members_.at(worker);
  control::ChargeReply answer{.id = charge.id};
  std::string why;
  hooks_.expect(worker, charge.device);
  const uint64_t left_bytes = LeftToTenant(member, charge.device);
  SwapScheduler::Room room = SwapScheduler::Room::kNever;
  if (charge.bytes <= left_bytes) {
    room = RoomFor(worker, member, charge, &why);
  } else {
    why = "device memory: asked " + std::to_string(charge.bytes) + " bytes, " +
          std::to_string(left_bytes) + " free of the tenant's " + std::to_string(tenant_bytes_);
  }
  if (room == SwapScheduler::Room::kComes) return false;
  Result<quota::Charge> reserved = room == SwapScheduler::Room::kNever
                                       ? Result<quota::Charge>(Status(Code::kQuotaExceeded, why))
                                       : ledger_.Reserve(member.vgpu, charge.device, charge.bytes);
  if (reserved.ok()) {
    member.charges[charge.device].Merge(std::move(*reserved));
    if (charge.device != quota::kHostMemory)
      hooks_.charged(charge.device, ledger_.charged_on_device(charge.device));
    answer.is_granted = true;
  } else {
    if (!is_last_try && room == SwapScheduler::Room::kThere) return false;
    uint64_t overhead = hooks_.overhead_bytes(member.vgpu, charge.device);
    why = reserved.status().message();
    why += overhead == 0 ? "" : "; " + std::to_string(overhead) + " are contexts and machine code";
    answer.why = why;
    hooks_.refused(worker, why, ++member.refusals);
  }
  const quota::Usage usage = UsageOf(member, charge.device);
  answer.charged_bytes = usage.charged_bytes;
  answer.quota_bytes = usage.quota_bytes;
  (void)hooks_.send(worker, answer);
  return true;
}

uint64_t MemoryCharges::LeftToTenant(const Member& member, int device) const {
  if (tenant_bytes_ == 0 || member.tenant.empty() || device == quota::kHostMemory)
    return ~uint64_t{0};
  std::set<std::string> vgpus = {member.vgpu};
  for (const auto& [worker, other] : members_)
    if (other.tenant == member.tenant) vgpus.insert(other.vgpu);
  uint64_t left_bytes = tenant_bytes_;
  for (const std::string& vgpu : vgpus)
    left_bytes -= std::min(left_bytes, ledger_.usage(vgpu, device).charged_bytes);
  return left_bytes;
}

quota::Usage MemoryCharges::UsageOf(const Member& member, int device) const {
  quota::Usage usage = ledger_.usage(member.vgpu, device);
  const uint64_t free_bytes = std::min(usage.free_bytes(), LeftToTenant(member, device));
  usage.charged_bytes = std::max(usage.charged_bytes, usage.quota_bytes - free_bytes);
  return usage;
}

uint64_t MemoryCharges::charged_bytes(WorkerId worker, int device) const {
  const Member* member = FindMember(worker);
  if (member == nullptr) return 0;
  auto charge = member->charges.find(device);
  return charge == member->charges.end() ? 0 : charge->second.bytes();
}

quota::Charge* MemoryCharges::Find(WorkerId worker, int device) {
  auto member = members_.find(worker);
  if (member == members_.end()) return nullptr;
  auto charge = member->second.charges.find(device);
  return charge == member->second.charges.end() ? nullptr : &charge->second;
}

uint64_t MemoryCharges::UnspentOf(WorkerId worker, int device) const {
  const Member* member = FindMember(worker);
  if (member == nullptr) return 0;
  auto unspent = member->unspent_bytes.find(device);
  if (unspent == member->unspent_bytes.end()) return 0;
  return std::min(unspent->second, charged_bytes(worker, device));  // no more than it can give back
}

uint64_t MemoryCharges::UnspentByOthers(WorkerId worker, int device) const {
  const Member* member = FindMember(worker);
  return member == nullptr ? 0 : UnspentOfVgpu(member->vgpu, device) - UnspentOf(worker, device);
}

uint64_t MemoryCharges::UnspentOfVgpu(const std::string& vgpu, int device) const {
  uint64_t total_bytes = 0;
  for (const auto& [worker, member] : members_)
    total_bytes += member.vgpu == vgpu ? UnspentOf(worker, device) : 0;
  return total_bytes;
}

bool MemoryCharges::Recall(WorkerId worker, const control::Charge& charge, quota::Ns now) {
  if (!RecallFrom(members_.at(worker).vgpu, charge.device, worker)) return false;
  waiting_.push_back({worker, charge, now + kRecallPatience});
  return true;
}

// All of it: memory goes back by whole chunks, and no number of bytes says how many of these are
// whole.
bool MemoryCharges::RecallFrom(const std::string& vgpu, int device, WorkerId but_not) {
  const control::RecallCredit recall{.device = device, .bytes = ~0ull >> 1};
  bool asked = false;
  for (const auto& [worker, member] : members_)
    if (worker != but_not && member.vgpu == vgpu && charged_bytes(worker, device) != 0)
      asked = hooks_.send(worker, recall) || asked;
  return asked;
}

quota::Charge MemoryCharges::ReserveUpTo(WorkerId worker, int device, uint64_t bytes) {
  const Member* member = FindMember(worker);
  if (member == nullptr) return {};
  uint64_t fits = std::min(bytes, UsageOf(*member, device).free_bytes());
  if (fits < bytes && UnspentOfVgpu(member->vgpu, device) != 0) RecallFrom(member->vgpu, device);
  Result<quota::Charge> charged = ledger_.Reserve(member->vgpu, device, fits);
  if (!charged.ok()) return {};
  hooks_.charged(device, ledger_.charged_on_device(device));
  return std::move(*charged);
}

// A grant may have been on its way to a session when that was asked, and a client on a loaded
// machine answers late. What the asker's program was told is free should be there.
bool MemoryCharges::RecallsAgain(Waiting* waiting, quota::Ns now) {
  const control::Charge& charge = waiting->charge;
  if (charge.device == quota::kHostMemory || waiting->recalls >= kMaxRecalls) return false;
  const std::string& vgpu = members_.at(waiting->worker).vgpu;
  const quota::Usage usage = ledger_.usage(vgpu, charge.device);
  const uint64_t unspent =
      std::min(UnspentByOthers(waiting->worker, charge.device), usage.charged_bytes);
  const uint64_t in_use = usage.charged_bytes - unspent;
  if (unspent == 0 || in_use > usage.quota_bytes || charge.bytes > usage.quota_bytes - in_use ||
      !RecallFrom(vgpu, charge.device, waiting->worker))
    return false;
  ++waiting->recalls;
  waiting->until = now + kRecallPatience;
  return true;
}

void MemoryCharges::Tick(quota::Ns now) {
  std::vector<Waiting> all = std::exchange(waiting_, {});
  for (Waiting& waiting : all) {
    if (FindMember(waiting.worker) == nullptr) continue;
    bool is_last_try = now >= waiting.until;
    if (is_last_try && RecallsAgain(&waiting, now)) is_last_try = false;
    if (!Answer(waiting.worker, waiting.charge, is_last_try)) waiting_.push_back(waiting);
  }
}

}  // namespace farcall::server
