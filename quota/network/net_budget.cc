// SPDX-License-Identifier: Apache-2.0
#include "quota/network/net_budget.h"

#include <algorithm>

namespace farcall::quota {

namespace {

constexpr uint64_t kLeastPiece = 16u << 10, kMaxPiece = 4u << 20;
constexpr uint64_t kPiecesPerSecond = 100, kPiecesPerBurst = 10;

}  // namespace

void NetBudget::Fill(Ns now) {
  Wide most = static_cast<Wide>(burst_bytes_) * kSecond;
  if (now > filled_at_) {
    saved_ += static_cast<Wide>(bytes_per_s_) * (now - filled_at_);
    filled_at_ = now;
  }
  saved_ = std::min(saved_, most);
}

void NetBudget::SetRate(uint64_t bytes_per_s, Ns now) {
  Fill(now);
  bytes_per_s_ = std::max<uint64_t>(bytes_per_s, 1);
  piece_bytes_ = std::clamp(bytes_per_s_ / kPiecesPerSecond, kLeastPiece, kMaxPiece);
  burst_bytes_ = std::max(bytes_per_s_ / kPiecesPerSecond * kPiecesPerBurst, piece_bytes_);
  Fill(now);
}

uint64_t NetBudget::Lend(Ns now) {
  Fill(now);
  Wide cost = static_cast<Wide>(piece_bytes_) * kSecond;
  if (saved_ < cost) return 0;
  saved_ -= cost;
  return piece_bytes_;
}

Ns NetBudget::Until(Ns now) {
  Fill(now);
  Wide missing = static_cast<Wide>(piece_bytes_) * kSecond - saved_;
  return missing <= 0 ? 0 : static_cast<Ns>((missing + bytes_per_s_ - 1) / bytes_per_s_);
}

}  // namespace farcall::quota
