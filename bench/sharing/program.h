// SPDX-License-Identifier: Apache-2.0
// A simulated program: kernels it launches ahead, and when it waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/sharing/sim_device.h"

namespace farcall::sharing {

// What one iteration does: `pieces` launches, then a wait for them, then a pause.
struct Load {
  std::string name;
  std::vector<Piece> kinds;  // each launch is one of them, by chance
  double jitter = 0.1;       // of a kernel's duration, either way
  uint32_t pieces = 0;       // per iteration; 0: never waits
  Ns pause_ns = 0;           // after an iteration
  double pause_jitter = 0.2;
  uint64_t iterations = 0;  // 0: for ever
};

// Log-uniform durations from `least` to `most`, `kinds` of them.
std::vector<Piece> MixedKernels(Ns least, Ns most, uint32_t kinds, uint64_t first_key);

class Program {
 public:
  Program(EventQueue& time, const Load& load, uint64_t seed);

  // `on_work`: there may be something to launch that was not there before.
  void Start(std::function<void()> on_work);
  // The launch that waits to be let through; null: none.
  const Piece* Head();
  // It was let through; call the result when it has run.
  std::function<void()> Pop();

  uint64_t iterations_done() const { return iterations_done_; }
  Ns finished_at() const { return finished_at_; }  // 0: not yet
  const std::vector<Ns>& iteration_ns() const { return iteration_ns_; }
  // Wall time of iterations is kept from here on.
  void KeepFrom(Ns when) { keep_from_ = when; }

 private:
  Ns Around(Ns mean, double jitter);
  void BeginIteration();
  void PieceDone();

  EventQueue& time_;
  const Load load_;
  std::mt19937_64 random_;
  std::function<void()> on_work_;
  Piece head_;
  bool has_head_ = false;
  uint32_t to_launch_ = 0, outstanding_ = 0;
  Ns begun_ = 0, finished_at_ = 0, keep_from_ = 0;
  uint64_t iterations_done_ = 0;
  std::vector<Ns> iteration_ns_;
};

}  // namespace farcall::sharing
