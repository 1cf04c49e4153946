// SPDX-License-Identifier: Apache-2.0
// Who moves for whom. What workers say of it: swap_scheduler_messages.cc.
#include "server/leases/swap_scheduler.h"

#include <algorithm>
#include <utility>

#include "server/leases/swap_numbers.h"

namespace farcall::server {

namespace {

using quota::kMillisecond;
using quota::kSecond;
using quota::Ns;

constexpr Ns kPatience = 2 * kSecond;       // for the work of one that is to leave
constexpr Ns kLongPatience = 20 * kSecond;  // where it is ended if it does not
// For room to grow. Quanta are a minute at most; what lasts longer than two will not end.
constexpr Ns kLongestWait = 120 * kSecond;
constexpr Ns kLook = 5 * kMillisecond;  // how often, while somebody waits

}  // namespace

SwapScheduler::SwapScheduler(SwapOptions options, Ledger ledger, Hooks hooks)
    : options_(std::move(options)),
      ledger_(std::move(ledger)),
      hooks_(std::move(hooks)),
      watch_(SumOf(options_.budget_bytes)) {}

void SwapScheduler::Join(WorkerId worker, const std::string& vgpu, quota::Priority priority,
                         Ns now) {
  Member& member = members_[worker];
  member.vgpu = vgpu;
  member.priority = priority;
  member.idle_since = member.in_since = now;
  const size_t devices = options_.budget_bytes.size();
  member.out = member.pinned = member.asks = std::vector<uint64_t>(devices);
  member.granted.resize(devices);
  member.refused.resize(devices);
}

void SwapScheduler::SetPriority(const std::string& vgpu, quota::Priority priority) {
  for (auto& [worker, member] : members_)
    if (member.vgpu == vgpu) member.priority = priority;
}

void SwapScheduler::Leave(WorkerId worker) {
  members_.erase(worker);
  for (auto& [other, member] : members_)  // what was in the way may have gone with it
    member.refused.assign(member.refused.size(), {});
}

bool SwapScheduler::waits(const Member& member) const {
  return member.wants_in || SumOf(member.asks) != 0;
}

void SwapScheduler::EndPause(Member& member, Ns now) {
  if (std::exchange(member.idle, false)) {
    Ns pause = now - member.idle_since;
    double part = member.pause_ns == 0 ? 1 : kLastPart;
    member.pause_ns += static_cast<Ns>(part * static_cast<double>(pause - member.pause_ns));
  }
}

// Two who pause often would else swap at each pause. To be worth it, one must last for its own way
// out and the other's in.
Ns SwapScheduler::IdleSince(WorkerId worker, const Member& member, uint64_t comes_bytes,
                            Ns now) const {
  Ns moves = CostOf(MovableOnAll(worker, member) + comes_bytes);
  Ns pause = std::max(member.pause_ns, now - member.idle_since);
  if (member.idle && pause >= moves) return member.idle_since;
  // Who works leaves when the quantum is over that pays for both ways of both.
  Ns quantum = watch_.Quantum(2 * moves);
  return now - member.in_since >= quantum ? member.in_since + quantum : quota::SwapCandidate::kBusy;
}

void SwapScheduler::NoteWait(Member& member, Ns now) {
  if (member.wants_since == 0) member.wants_since = now;
}

void SwapScheduler::EndWait(Member& member, Ns now) {
  if (member.wants_since != 0 && !waits(member)) {
    member.waited_ns += now - member.wants_since;
    member.wants_since = 0;
  }
}

uint64_t SwapScheduler::Movable(WorkerId worker, const Member& member, int device) const {
  auto index = static_cast<size_t>(device);
  return Less(ledger_.held(worker, device), member.pinned[index] + member.out[index]);
}

uint64_t SwapScheduler::MovableOnAll(WorkerId worker, const Member& member) const {
  uint64_t total = 0;
  for (size_t i = 0; i < options_.budget_bytes.size(); ++i)
    total += Movable(worker, member, static_cast<int>(i));
  return total;
}

uint64_t SwapScheduler::resident_bytes(int device) const {
  uint64_t total = ledger_.held_by_all(device);
  for (const auto& [worker, member] : members_)
    if (member.state != State::kEntering)  // who comes back has its room
      total = Less(total, member.out[static_cast<size_t>(device)]);
  return total;
}

uint64_t SwapScheduler::host_bytes_used() const {
  uint64_t total = 0;
  for (const auto& [worker, member] : members_) total += member.slab_bytes;
  return total;
}

uint64_t SwapScheduler::MayLeaveFor(WorkerId asker, const Member& member, int device) const {
  uint64_t total = 0;
  for (const auto& [worker, other] : members_) {
    bool may = worker != asker && other.state != State::kOut && other.priority <= member.priority &&
               MovableOnAll(worker, other) <= options_.host_bytes;
    total += may ? Movable(worker, other, device) : 0;
  }
  return total;
}

Ns SwapScheduler::CostOf(uint64_t bytes) const {
  return quota::SwitchCost(bytes, 0, 0, bytes_per_ns_, 0);
}

SwapScheduler::Room SwapScheduler::Ask(WorkerId worker, int device, uint64_t bytes, Ns now,
                                       std::string* why) {
  auto found = members_.find(worker);
  if (found == members_.end()) return Room::kThere;
  Member& member = found->second;
  auto index = static_cast<size_t>(device);
  uint64_t own = ledger_.held(worker, device);
  uint64_t all = Less(ledger_.held_by_all(device), HeldOut(device));
  const uint64_t budget = Budget(device);
  auto refuse = [&](const std::string& limit) {
    *why = "device memory: asked " + std::to_string(bytes) + " bytes, " + limit;
    Withdraw(worker);
    EndWait(member, now);
    return Room::kNever;
  };
  if (bytes > Less(options_.lent_bytes[index], all)) {
    return refuse("the server lends " + std::to_string(options_.lent_bytes[index]) + " in all, " +
                  std::to_string(all) + " are lent");
  }
  if (bytes > Less(budget, own)) {
    return refuse("the device holds " + std::to_string(budget) + " at once, " +
                  std::to_string(own) + " are the session's");
  }
  uint64_t resident = resident_bytes(device);
  bool is_in = member.state == State::kIn;
  if (is_in && resident + bytes <= budget) {
    member.granted[index] = {bytes, now};
    Withdraw(worker);
    EndWait(member, now);
    return Room::kThere;
  }
  if (is_in && resident + bytes > budget + MayLeaveFor(worker, member, device)) {
    return refuse(std::to_string(Less(budget, resident)) +
                  " are free; others may not leave, and the server swaps " +
                  std::to_string(options_.host_bytes) + " at most");
  }
  if (is_in && member.wants_since != 0 && now - member.wants_since > kLongestWait)
    return refuse("nobody left the device for it within 120 s");
  member.asks[index] = bytes;
  NoteWait(member, now);
  return Room::kComes;
}

void SwapScheduler::Withdraw(WorkerId worker) {
  if (auto found = members_.find(worker); found != members_.end())
    std::fill(found->second.asks.begin(), found->second.asks.end(), 0);
}

void SwapScheduler::SendOut(WorkerId worker, Member& member, Ns now) {
  member.state = State::kLeaving;
  member.moves_since = now;
  member.moving_bytes = MovableOnAll(worker, member);
  member.slab_bytes = std::max(member.slab_bytes, member.moving_bytes);
  const Ns patience = member.held_out ? kLongPatience : kPatience;
  hooks_.send(worker, control::SwapOut{.patience_ns = static_cast<uint64_t>(patience)});
}

uint64_t SwapScheduler::HeldOut(int device) const {
  uint64_t total = 0;
  for (const auto& [worker, member] : members_)
    total += member.held_out ? member.out[static_cast<size_t>(device)] : 0;
  return total;
}

void SwapScheduler::ParkIdle(Ns now) {
  if (options_.park_after_ns == 0) return;
  for (auto& [worker, member] : members_) {
    uint64_t bytes = MovableOnAll(worker, member);
    bool leaves = member.state == State::kIn && member.idle && !waits(member) && bytes != 0 &&
                  now - member.idle_since >= options_.park_after_ns && now >= member.not_before &&
                  Less(bytes, member.slab_bytes) <= Less(options_.host_bytes, host_bytes_used());
    if (leaves) {
      member.parked = true;
      SendOut(worker, member, now);
    }
  }
}

Status SwapScheduler::Park(const std::string& vgpu, Ns now) {
  uint64_t needed = 0;
  for (const auto& [worker, member] : members_)
    if (member.vgpu == vgpu && member.state == State::kIn)
      needed += Less(MovableOnAll(worker, member), member.slab_bytes);
  uint64_t left = Less(options_.host_bytes, host_bytes_used());
  if (needed > left) {
    return {Code::kRefused, "it holds " + std::to_string(needed) + " bytes, of swap_host_mem " +
                                std::to_string(left) + " are left"};
  }
  for (auto& [worker, member] : members_) {
    if (member.vgpu != vgpu) continue;
    member.park = member.state == State::kOut ? ParkState::kDone : ParkState::kPending;
    member.parked = true;
    if (member.state == State::kIn)
      SendOut(worker, member, now);
    else if (member.state == State::kEntering)
      member.park = ParkState::kStayed;
  }
  return {};
}

Status SwapScheduler::HoldOut(const std::string& vgpu, Ns now) {
  for (auto& [worker, member] : members_)
    if (member.vgpu == vgpu) member.held_out = true;
  Status parked = Park(vgpu, now);
  if (!parked.ok()) LetIn(vgpu);
  return parked;
}

void SwapScheduler::LetIn(const std::string& vgpu) {
  for (auto& [worker, member] : members_) {
    if (member.vgpu != vgpu) continue;
    member.held_out = false;
    member.park = ParkState::kNone;
  }
}

uint64_t SwapScheduler::StaysOf(const std::string& vgpu) const {
  uint64_t total = 0;
  for (const auto& [worker, member] : members_)
    if (member.vgpu == vgpu) total += SumOf(member.pinned);
  return total;
}

SwapScheduler::Parked SwapScheduler::ParkedYet(const std::string& vgpu) const {
  bool stayed = false;
  for (const auto& [worker, member] : members_) {
    if (member.vgpu == vgpu) {
      if (member.park == ParkState::kPending) return Parked::kPending;
      stayed = stayed || member.park == ParkState::kStayed;
    }
  }
  return stayed ? Parked::kStayed : Parked::kDone;
}

// In the order of their classes, then of their waiting: who is first is helped first, so that the
// small ones behind it do not keep it waiting for ever.
void SwapScheduler::Tick(Ns now) {
  watch_.Judge(now);
  Forget(now);
  EndTheStuck(now);
  uint64_t demand = 0;
  std::vector<std::pair<WorkerId, Member*>> waiting;
  for (auto& [worker, member] : members_) {
    bool is_parked = member.parked && member.state == State::kOut;
    for (size_t i = 0; i < options_.budget_bytes.size() && !is_parked; ++i)
      demand += ledger_.held(worker, static_cast<int>(i)) + member.asks[i];
    bool may_move = member.state == State::kIn || member.state == State::kOut;
    if (waits(member) && may_move && !member.held_out && now >= member.not_before)
      waiting.emplace_back(worker, &member);
  }
  watch_.NoteDemand(demand, now);
  std::sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    return std::pair(-static_cast<int>(a.second->priority), a.second->wants_since) <
           std::pair(-static_cast<int>(b.second->priority), b.second->wants_since);
  });
  std::vector<uint64_t> promised(options_.budget_bytes.size());
  for (auto& [worker, member] : waiting)
    if (!Help(worker, *member, &promised, now)) break;
  ParkIdle(now);
}

bool SwapScheduler::Help(WorkerId worker, Member& member, std::vector<uint64_t>* promised, Ns now) {
  bool is_out = member.state == State::kOut;
  std::vector<uint64_t> need(options_.budget_bytes.size());
  for (size_t i = 0; i < options_.budget_bytes.size(); ++i) {
    auto device = static_cast<int>(i);
    need[i] = (is_out ? member.out[i] : 0) + member.asks[i];
    uint64_t free = Less(Less(Budget(device), resident_bytes(device)), (*promised)[i]);
    if (need[i] <= free) continue;
    uint64_t leaving = 0;
    for (const auto& [other, theirs] : members_)
      leaving += theirs.state == State::kLeaving ? Movable(other, theirs, device) : 0;
    if (need[i] > free + leaving) Evict(worker, member, device, need[i] - free - leaving, now);
    return false;
  }
  for (size_t i = 0; i < options_.budget_bytes.size(); ++i)
    (*promised)[i] += is_out ? member.asks[i] : need[i];
  if (is_out) {
    const bool keeps = host_bytes_used() <= options_.host_bytes / 2;
    member.state = State::kEntering;
    member.moves_since = now;
    member.moving_bytes = SumOf(member.out);
    member.slab_bytes = keeps ? member.slab_bytes : SumOf(member.out);
    hooks_.send(worker, control::SwapIn{.keeps_host_memory = keeps});
  }
  return true;
}

void SwapScheduler::Evict(WorkerId asker, const Member& member, int device, uint64_t bytes,
                          Ns now) {
  std::vector<quota::SwapCandidate> candidates;
  uint64_t reused = 0;  // host memory that they have already
  for (const auto& [worker, other] : members_) {
    if (worker == asker || other.state != State::kIn || now < other.not_before) continue;
    uint64_t moves = MovableOnAll(worker, other);
    quota::SwapCandidate candidate;
    candidate.vgpu = static_cast<uint64_t>(worker);
    candidate.priority = other.priority;
    candidate.bytes = Movable(worker, other, device);
    candidate.resident_since = other.in_since;
    // Its pauses are judged by their length: to stay for a quarter of the usual is enough.
    candidate.switch_cost_ns = CostOf(moves) / 4;
    candidate.idle_since = IdleSince(worker, other, SumOf(member.out) + SumOf(member.asks), now);
    reused += std::min(other.slab_bytes, moves);
    candidates.push_back(candidate);
  }
  uint64_t host_left = Less(options_.host_bytes, host_bytes_used());
  std::vector<uint64_t> victims =
      ChooseVictims(candidates, bytes, member.priority, host_left + reused, now);
  uint64_t host_needed = 0;
  for (uint64_t victim : victims) {
    auto worker = static_cast<WorkerId>(victim);
    const Member& leaves = members_.at(worker);
    host_needed += Less(MovableOnAll(worker, leaves), leaves.slab_bytes);
  }
  if (host_needed > host_left) return;
  for (uint64_t victim : victims) {
    auto worker = static_cast<WorkerId>(victim);
    SendOut(worker, members_.at(worker), now);
  }
}

Ns SwapScheduler::WakeAt(Ns now) const {
  Ns at = INT64_MAX;
  for (const auto& [worker, member] : members_) {
    if ((waits(member) && !member.held_out) || member.park == ParkState::kPending)
      return now + kLook;
    if (options_.park_after_ns != 0 && member.state == State::kIn && member.idle)
      at = std::min(at, std::max(member.idle_since + options_.park_after_ns, now + kLook));
  }
  return at;
}

SwapScheduler::Standing SwapScheduler::Of(WorkerId worker, Ns now) const {
  Standing standing;
  auto found = members_.find(worker);
  if (found == members_.end()) return standing;
  const Member& member = found->second;
  standing.state = member.state == State::kIn         ? "resident"
                   : member.state == State::kLeaving  ? "leaves"
                   : member.state == State::kEntering ? "comes back"
                   : member.parked                    ? "parked"
                                                      : "swapped";
  standing.waits = waits(member);
  standing.waited_ns = member.waited_ns + (member.wants_since != 0 ? now - member.wants_since : 0);
  standing.out_bytes = member.out;
  standing.out = member.moved_out;
  standing.in = member.moved_in;
  return standing;
}

}  // namespace farcall::server
