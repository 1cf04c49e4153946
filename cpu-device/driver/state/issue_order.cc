// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/issue_order.h"

namespace farcall::cpu_device {
namespace {

using Clock = std::chrono::steady_clock;
// More than a grid takes that does not wait, nearly always.
constexpr auto kLongest = std::chrono::seconds(2);

}  // namespace

uint64_t IssueOrder::Issue(uint64_t behind, bool comes) {
  std::lock_guard lock(mutex_);
  pieces_[next_] = {State::kIssued, behind, comes};
  return next_++;
}

// Whether it will be ready without another's help, so that later ones wait for it.
bool IssueOrder::Comes(const Piece& piece) const {
  const Piece* at = &piece;
  while (at->state == State::kIssued) {
    if (!at->comes) return false;
    const auto before = pieces_.find(at->behind);
    if (before == pieces_.end()) return true;
    at = &before->second;
  }
  return at->state != State::kWaits;
}

// At most one is under way, and those that were issued before it have been, or cannot be yet.
bool IssueOrder::MayBegin(uint64_t number) const {
  if (begun_ != 0) return false;
  for (const auto& [other, piece] : pieces_) {
    if (other == number) break;
    if (Comes(piece)) return false;
  }
  return true;
}

void IssueOrder::Begin(uint64_t number) {
  std::unique_lock lock(mutex_);
  Piece& piece = pieces_.at(number);
  piece.state = State::kReady;
  WaitForTurn(lock, number);
  piece.state = State::kBegun;
  begun_ = number;
  since_ = Clock::now();
}

void IssueOrder::WaitForTurn(std::unique_lock<std::mutex>& lock, uint64_t number) {
  while (!MayBegin(number)) {
    changed_.wait_for(lock, kLongest);
    if (Clock::now() - since_ < kLongest || MayBegin(number)) continue;
    if (begun_ == 0) return;  // the one before it does not come
    LetOthersBegin(begun_);
  }
}

void IssueOrder::Yield(uint64_t number) {
  std::lock_guard lock(mutex_);
  LetOthersBegin(number);
}

// Under mutex_. The next one has its time from now on to begin.
void IssueOrder::LetOthersBegin(uint64_t number) {
  pieces_.at(number).state = State::kWaits;
  if (begun_ == number) begun_ = 0;
  since_ = Clock::now();
  changed_.notify_all();
}

void IssueOrder::End(uint64_t number) {
  bool others = false;
  {
    std::lock_guard lock(mutex_);
    pieces_.erase(number);
    if (begun_ == number) begun_ = 0;
    since_ = Clock::now();
    others = !pieces_.empty();
  }
  if (others) changed_.notify_all();
}

}  // namespace farcall::cpu_device
