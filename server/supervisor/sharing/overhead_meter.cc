// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sharing/overhead_meter.h"

#include <algorithm>
#include <utility>

namespace farcall::server {

namespace {

constexpr quota::Ns kEvery = quota::kSecond;
constexpr quota::Ns kPatience =
    10 * quota::kSecond;  // for an answer, or until somebody can be asked

}  // namespace

OverheadMeter::OverheadMeter(int devices, bool charges, Hooks hooks)
    : devices_(devices),
      charges_(charges),
      hooks_(std::move(hooks)),
      context_bytes_(static_cast<size_t>(devices)),
      answers_(static_cast<size_t>(devices)) {}

void OverheadMeter::Join(WorkerId worker, int pid) {
  Member& member = members_[worker];
  member.pid = static_cast<uint64_t>(pid);
  member.on = std::vector<OnDevice>(static_cast<size_t>(devices_));
}

void OverheadMeter::Tick(quota::Ns now) {
  if (members_.empty() || now < ask_at_) return;
  for (auto& [worker, member] : members_)
    for (int device = 0; device < devices_; ++device)
      member.on[static_cast<size_t>(device)].overhead.Before(hooks_.own_bytes(worker, device));
  for (auto& answer : answers_) answer.clear();
  waits_ = hooks_.ask(++question_);
  ask_at_ = now + kPatience;
}

void OverheadMeter::OnMessage(const control::ProcessMemory& part) {
  if (waits_ && part.device >= 0 && part.device < devices_)
    answers_[static_cast<size_t>(part.device)][part.pid] += part.bytes;
}

void OverheadMeter::OnMessage(const control::ProcessMemoryEnd& end) {
  if (!waits_ || end.id != question_) {
    for (auto& answer : answers_) answer.clear();  // of one that was given up, as its parts were
    return;
  }
  waits_ = false;
  ask_at_ = ask_at_ - kPatience + kEvery;
  why_unknown_ = end.why_unknown;
  for (auto& [worker, member] : members_) {
    for (int device = 0; device < devices_; ++device) {
      auto index = static_cast<size_t>(device);
      OnDevice& on = member.on[index];
      auto found = answers_[index].find(member.pid);
      bool is_there = found != answers_[index].end();
      if (is_there || on.overhead.is_known() || on.charge.bytes() != 0) {
        on.overhead.Note(is_there ? found->second : 0, hooks_.own_bytes(worker, device));
        Settle(worker, member, device);
      }
    }
  }
}

void OverheadMeter::Settle(WorkerId worker, Member& member, int device) {
  auto index = static_cast<size_t>(device);
  OnDevice& on = member.on[index];
  uint64_t bytes = on.overhead.bytes();
  uint64_t& context = context_bytes_[index];
  if (bytes != 0) context = context == 0 ? bytes : std::min(context, bytes);
  if (!charges_) return;
  uint64_t charged = on.charge.bytes();
  if (charged > bytes)
    on.charge.RefundSome(charged - bytes);
  else if (charged < bytes)
    on.charge.Merge(hooks_.charge(worker, device, bytes - charged));
}

void OverheadMeter::Expect(WorkerId worker, int device) {
  auto member = members_.find(worker);
  if (!charges_ || member == members_.end() || device < 0 || device >= devices_) return;
  auto index = static_cast<size_t>(device);
  OnDevice& on = member->second.on[index];
  if (!on.overhead.is_known() && on.charge.bytes() == 0 && context_bytes_[index] != 0)
    on.charge.Merge(hooks_.charge(worker, device, context_bytes_[index]));
}

const OverheadMeter::OnDevice* OverheadMeter::Find(WorkerId worker, int device) const {
  auto member = members_.find(worker);
  bool known = member != members_.end() && device >= 0 && device < devices_;
  return known ? &member->second.on[static_cast<size_t>(device)] : nullptr;
}

uint64_t OverheadMeter::bytes(WorkerId worker, int device) const {
  const OnDevice* on = Find(worker, device);
  return on == nullptr ? 0 : on->overhead.bytes();
}

uint64_t OverheadMeter::charged_bytes(WorkerId worker, int device) const {
  const OnDevice* on = Find(worker, device);
  return on == nullptr ? 0 : on->charge.bytes();
}

uint64_t OverheadMeter::uncharged_bytes(int device) const {
  uint64_t total = 0;
  for (const auto& [worker, member] : members_) {
    const OnDevice& on = member.on[static_cast<size_t>(device)];
    total += on.overhead.bytes() - std::min(on.overhead.bytes(), on.charge.bytes());
  }
  return total;
}

}  // namespace farcall::server
