// SPDX-License-Identifier: Apache-2.0
// --sequencer and --half-life of `farcall pool serve` and `dev`.
#pragma once

#include <CLI/CLI.hpp>

#include "pool/core/placing/sequencer.h"

namespace farcall::cli {

// `policy` outlives the command.
inline void AddSequencerFlags(CLI::App* command, pool::SequencerPolicy* policy) {
  constexpr double kMsPerHour = 3'600'000;
  command
      ->add_option("--sequencer", policy->name,
                   "order of claims of one queue priority: fifo, lifo, drf (by what projects hold "
                   "now) or fair (by what they have held)")
      ->check(CLI::IsMember(pool::SequencerNames()))
      ->capture_default_str();
  command
      ->add_option_function<double>(
          "--half-life",
          [policy](double hours) { policy->half_life = static_cast<pool::Ms>(hours * kMsPerHour); },
          "hours after which --sequencer fair counts what was held half (default: 168)")
      ->check(CLI::Range(0.01, 87'600.0));
}

}  // namespace farcall::cli
