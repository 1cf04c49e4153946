// SPDX-License-Identifier: Apache-2.0
// What a call costs, on a machine that is shared and has bad rounds.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

// Nanoseconds of one call, the median of rounds of so many; `wait` after each, not counted.
template <typename Call, typename Wait>
double MedianNs(int calls, Call call, Wait wait) {
  constexpr int kRounds = 201;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    rounds.push_back(spent.count() / calls);
    wait();
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}
