// SPDX-License-Identifier: Apache-2.0
// One answer for several points: the first error, once all are reached.
#pragma once

#include <cuda.h>

#include <functional>
#include <mutex>
#include <utility>

namespace farcall::server {

//   Thread  any
class Countdown {
 public:
  Countdown(int count, std::function<void(CUresult)> done) : left_(count), done_(std::move(done)) {}
  void Expect() {
    std::lock_guard lock(mutex_);
    ++left_;
  }
  void Reach(CUresult result) {
    {
      std::lock_guard lock(mutex_);
      if (result != CUDA_SUCCESS && first_error_ == CUDA_SUCCESS) first_error_ = result;
      if (--left_ != 0) return;
    }
    done_(first_error_);
  }

 private:
  std::mutex mutex_;
  int left_;
  CUresult first_error_ = CUDA_SUCCESS;
  std::function<void(CUresult)> done_;
};

}  // namespace farcall::server
