// SPDX-License-Identifier: Apache-2.0
#include "pool/core/placing/sequencer.h"

#include <algorithm>
#include <cmath>

namespace farcall::pool {

namespace {

double Part(uint64_t used, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(used) / static_cast<double>(all);
}

class Fifo final : public Sequencer {
 public:
  std::string_view name() const override { return "fifo"; }
  double ValueOf(const Standing&, const Amounts&) const override { return 0; }
  bool is_by_project() const override { return false; }
};

class Lifo final : public Sequencer {
 public:
  std::string_view name() const override { return "lifo"; }
  double ValueOf(const Standing&, const Amounts&) const override { return 0; }
  uint64_t TurnOf(uint64_t order) const override { return UINT64_MAX - order; }
  bool is_by_project() const override { return false; }
};

class Drf final : public Sequencer {
 public:
  std::string_view name() const override { return "drf"; }
  double ValueOf(const Standing& standing, const Amounts& capacity) const override {
    return DominantShare(standing.used, capacity) / std::max(standing.weight, 1u);
  }
};

class Fair final : public Sequencer {
 public:
  std::string_view name() const override { return "fair"; }
  double ValueOf(const Standing& standing, const Amounts& capacity) const override {
    // What is held now counts for a while ahead, or all that is free at once would go to one.
    constexpr double kAheadMs = 60'000;
    const double held = Part(standing.used.device_milli, capacity.device_milli);
    return (standing.usage_ms + held * kAheadMs) / std::max(standing.weight, 1u);
  }
};

}  // namespace

std::unique_ptr<const Sequencer> MakeSequencer(std::string_view name) {
  if (name == "fifo") return std::make_unique<Fifo>();
  if (name == "lifo") return std::make_unique<Lifo>();
  if (name == "drf") return std::make_unique<Drf>();
  if (name == "fair") return std::make_unique<Fair>();
  return nullptr;
}

std::vector<std::string> SequencerNames() {
  return {"fifo", "lifo", "drf", "fair"};
}

double DominantShare(const Amounts& used, const Amounts& capacity) {
  return std::max({Part(used.memory_bytes, capacity.memory_bytes),
                   Part(used.share_milli, capacity.share_milli),
                   Part(used.net_bytes_per_s, capacity.net_bytes_per_s)});
}

double Decayed(double usage_ms, double share, Ms passed, Ms half_life) {
  if (passed <= 0) return usage_ms;
  constexpr double kLn2 = 0.69314718055994531;
  const double life = static_cast<double>(std::max<Ms>(half_life, 1));
  const double left = std::exp2(-static_cast<double>(passed) / life);
  return usage_ms * left + share * life / kLn2 * (1 - left);
}

}  // namespace farcall::pool
