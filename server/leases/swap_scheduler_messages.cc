// SPDX-License-Identifier: Apache-2.0
// What workers say of their moves and of the device, held against our own clock and ledger.
#include <algorithm>

#include "server/leases/swap_numbers.h"
#include "server/leases/swap_scheduler.h"

namespace farcall::server {

namespace {

using quota::kSecond;
using quota::Ns;

constexpr Ns kPause = kSecond;                // before one that stayed is asked again
constexpr uint64_t kTellingBytes = 1u << 20;  // a smaller move says nothing about speed
// What a worker says of a move is used within these.
constexpr double kSlowest = 0.25, kFastest = 250;  // bytes per nanosecond
constexpr Ns kLatestMove = 60 * kSecond;           // beside what its bytes take at the slowest
constexpr Ns kGrantLasts = 10 * kSecond;           // a device refuses what was granted at once
constexpr Ns kRefusalLasts = 60 * kSecond;

Ns Longest(uint64_t bytes) {
  return static_cast<Ns>(static_cast<double>(bytes) / kSlowest);
}

}  // namespace

// A worker's word takes no more from the others than its vGPU could by asking for it: else one that
// lies could empty the device.
uint64_t SwapScheduler::Budget(int device) const {
  auto index = static_cast<size_t>(device);
  uint64_t missing = 0;
  for (const auto& [worker, member] : members_) {
    uint64_t told = member.refused[index].missing_bytes;
    if (told != 0) {
      uint64_t own = member.out[index] + ledger_.free(worker, device);
      missing = std::max(missing, std::min(told, own));
    }
  }
  return Less(options_.budget_bytes[index], missing);
}

void SwapScheduler::Forget(Ns now) {
  for (auto& [worker, member] : members_) {
    for (Member::Refusal& refusal : member.refused)
      if (now >= refusal.until) refusal = {};
  }
}

void SwapScheduler::NoteRefusal(Member& member, int device, Ns now) {
  auto index = static_cast<size_t>(device);
  member.refused[index] = {Less(options_.budget_bytes[index], resident_bytes(device)),
                           now + kRefusalLasts};
}

SwapScheduler::Member* SwapScheduler::Find(WorkerId worker) {
  auto found = members_.find(worker);
  return found == members_.end() ? nullptr : &found->second;
}

void SwapScheduler::OnMessage(WorkerId worker, const control::Idle& message, Ns now) {
  if (Member* member = Find(worker)) {
    EndPause(*member, now);
    member->idle = message.is_idle;
    member->idle_since = now;
  }
}

void SwapScheduler::OnMessage(WorkerId worker, const control::WantIn&, Ns now) {
  Member* member = Find(worker);
  // It may have left and say so a moment later.
  if (member != nullptr && (member->state == State::kOut || member->state == State::kLeaving)) {
    EndPause(*member, now);
    member->wants_in = true;
    NoteWait(*member, now);
  }
}

void SwapScheduler::OnMessage(WorkerId worker, const control::Moved& message, Ns) {
  Member* member = Find(worker);
  if (member == nullptr || !IsKnown(message.device)) return;
  uint64_t& out = member->out[static_cast<size_t>(message.device)];
  uint64_t most = member->state == State::kLeaving ? ledger_.held(worker, message.device) : out;
  out = std::min(message.out_bytes, most);
}

void SwapScheduler::OnMessage(WorkerId worker, const control::DeviceFull& message, Ns now) {
  Member* member = Find(worker);
  if (member == nullptr || !IsKnown(message.device)) return;
  Member::Grant& grant = member->granted[static_cast<size_t>(message.device)];
  if (grant.bytes != 0 && grant.bytes == message.bytes && now - grant.at <= kGrantLasts) {
    grant = {};
    NoteRefusal(*member, message.device, now);
  }
}

// By the worker's word, within what our own clock and ledger allow.
void SwapScheduler::CountMove(WorkerId worker, Member& member, const control::SwapDone& message,
                              bool out, Ns now) {
  const uint64_t bytes = std::min(message.moved_bytes, member.moving_bytes);
  auto told = static_cast<Ns>(std::min<uint64_t>(message.took_ns, INT64_MAX / 4));
  const Ns took = std::clamp<Ns>(told, 0, now - member.moves_since);
  for (Totals* totals : {out ? &member.moved_out : &member.moved_in, out ? &out_ : &in_}) {
    ++totals->count;
    totals->bytes += bytes;
    totals->ns += took;
  }
  watch_.NoteSwap(now - std::min(took, Longest(bytes)), now);
  if (bytes >= kTellingBytes && took > 0) {
    double measured = static_cast<double>(bytes) / static_cast<double>(took);
    bytes_per_ns_ += kLastPart * (std::clamp(measured, kSlowest, kFastest) - bytes_per_ns_);
  }
  if (bytes != 0) hooks_.moved(worker, out, bytes, took);
}

void SwapScheduler::OnMessage(WorkerId worker, const control::SwapDone& message, Ns now) {
  using control::SwapOutcome;
  const SwapOutcome outcome = message.outcome;
  bool leaves = outcome == SwapOutcome::kOut || outcome == SwapOutcome::kStayed;
  Member* found = Find(worker);
  if (found == nullptr || found->state != (leaves ? State::kLeaving : State::kEntering))
    return;  // it was not asked
  Member& member = *found;
  bool kept = member.slab_bytes != 0 && host_bytes_used() <= options_.host_bytes / 2;
  switch (outcome) {
    case SwapOutcome::kOut:
      member.state = State::kOut;
      for (size_t i = 0; i < member.pinned.size(); ++i)
        member.pinned[i] = Less(ledger_.held(worker, static_cast<int>(i)), member.out[i]);
      member.slab_bytes = std::max(member.slab_bytes, SumOf(member.out));
      member.park = member.park == ParkState::kPending ? ParkState::kDone : member.park;
      return CountMove(worker, member, message, true, now);
    case SwapOutcome::kStayed:
      member.state = State::kIn;
      member.out.assign(member.out.size(), 0);
      member.slab_bytes = 0;
      member.not_before = now + kPause;
      member.parked = false;
      member.park = member.park == ParkState::kPending ? ParkState::kStayed : member.park;
      return;
    case SwapOutcome::kIn:
      member.state = State::kIn;
      member.out.assign(member.out.size(), 0);
      member.in_since = now;
      member.wants_in = member.parked = false;
      member.slab_bytes = kept ? member.slab_bytes : 0;
      EndWait(member, now);
      return CountMove(worker, member, message, false, now);
    case SwapOutcome::kNoRoom:
      member.state = State::kOut;
      member.not_before = now + kPause / 10;
      for (size_t i = 0; i < member.out.size(); ++i)
        if (member.out[i] != 0) NoteRefusal(member, static_cast<int>(i), now);
      return;
  }
}

// One that is asked to move and does not answer keeps the others waiting.
void SwapScheduler::EndTheStuck(Ns now) {
  for (auto& [worker, member] : members_) {
    bool moves = member.state == State::kLeaving || member.state == State::kEntering;
    if (moves && now - member.moves_since > kLatestMove + Longest(member.moving_bytes)) {
      member.moves_since = now;  // said once
      hooks_.end(worker, "its worker did not move its memory within " +
                             std::to_string(kLatestMove / kSecond) + " s of being asked");
    }
  }
}

}  // namespace farcall::server
