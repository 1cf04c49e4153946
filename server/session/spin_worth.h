// SPDX-License-Identifier: Apache-2.0
// Whether to look for something for a while is likely to find it: as the last times did.
#pragma once

#include <cstdint>

namespace farcall::server {

class SpinWorth {
 public:
  // Once it has failed a few times, now and then only: that tells when it pays again.
  bool Pays() { return misses_ < kMisses || ++passed_over_ % kRetry == 0; }
  void Note(bool found) { misses_ = found ? 0 : misses_ + 1; }

 private:
  static constexpr uint32_t kMisses = 4, kRetry = 16;

  uint32_t misses_ = 0;
  uint32_t passed_over_ = 0;
};

}  // namespace farcall::server
