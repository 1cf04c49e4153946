// SPDX-License-Identifier: Apache-2.0
#include "bench/sharing/program.h"

#include <cmath>

namespace farcall::sharing {

std::vector<Piece> MixedKernels(Ns least, Ns most, uint32_t kinds, uint64_t first_key) {
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < kinds; ++i) {
    double part = kinds == 1 ? 0 : static_cast<double>(i) / (kinds - 1);
    double ratio = static_cast<double>(most) / static_cast<double>(least);
    auto duration = static_cast<Ns>(static_cast<double>(least) * std::pow(ratio, part));
    pieces.push_back({first_key + i, duration, 256 + 512 * i, 256});
  }
  return pieces;
}

Program::Program(EventQueue& time, const Load& load, uint64_t seed)
    : time_(time), load_(load), random_(seed) {}

Ns Program::Around(Ns mean, double jitter) {
  std::uniform_real_distribution<double> factor(1 - jitter, 1 + jitter);
  return static_cast<Ns>(static_cast<double>(mean) * factor(random_));
}

void Program::Start(std::function<void()> on_work) {
  on_work_ = std::move(on_work);
  BeginIteration();
}

void Program::BeginIteration() {
  begun_ = time_.now();
  to_launch_ = load_.pieces == 0 ? UINT32_MAX : load_.pieces;
  on_work_();
}

const Piece* Program::Head() {
  if (!has_head_ && to_launch_ > 0) {
    head_ = load_.kinds[random_() % load_.kinds.size()];
    head_.duration_ns = Around(head_.duration_ns, load_.jitter);
    has_head_ = true;
  }
  return has_head_ ? &head_ : nullptr;
}

std::function<void()> Program::Pop() {
  has_head_ = false;
  to_launch_ -= load_.pieces == 0 ? 0 : 1;
  ++outstanding_;
  return [this] { PieceDone(); };
}

void Program::PieceDone() {
  if (--outstanding_ != 0 || to_launch_ != 0) return;
  ++iterations_done_;
  if (begun_ >= keep_from_) iteration_ns_.push_back(time_.now() - begun_);
  if (iterations_done_ == load_.iterations) {
    finished_at_ = time_.now();
    return;
  }
  time_.In(Around(load_.pause_ns, load_.pause_jitter), [this] { BeginIteration(); });
}

}  // namespace farcall::sharing
