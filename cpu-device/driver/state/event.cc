// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/event.h"

#include <utility>

namespace farcall::cpu_device {

void Recording::Complete() {
  {
    std::lock_guard lock(mutex_);
    time_ = std::chrono::steady_clock::now();
    done_ = true;
  }
  reached_.notify_all();
}

bool Recording::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void Recording::Wait() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [&] { return done_; });
}

std::chrono::steady_clock::time_point Recording::time() const {
  std::lock_guard lock(mutex_);
  return time_;
}

std::shared_ptr<Recording> Event::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

CUresult Event::Record(Stream& stream) {
  auto recording = std::make_shared<Recording>();
  {
    std::lock_guard lock(mutex_);
    latest_ = recording;
    capture_.reset();
    capture_nodes_.clear();
  }
  // Also in a broken context: whoever waits must go on and see the error.
  const uint64_t number = shared_ == nullptr ? 0 : shared_->Record();
  const auto work = [recording, number, shared = shared_] {
    if (shared != nullptr) shared->Reach(number);
    recording->Complete();
    return CUDA_SUCCESS;
  };
  return stream.Submit(work, How::kInlineIfIdle, true, Share::kNone);
}

void Event::SetCaptured(std::weak_ptr<Capture> capture, std::vector<CUgraphNode> nodes) {
  std::lock_guard lock(mutex_);
  capture_ = std::move(capture);
  capture_nodes_ = std::move(nodes);
}

std::shared_ptr<Capture> Event::captured(std::vector<CUgraphNode>* nodes) const {
  std::lock_guard lock(mutex_);
  *nodes = capture_nodes_;
  return capture_.lock();
}

CUresult WaitForEvent(Stream& stream, const Event& event) {
  if (const std::shared_ptr<SharedEvent>& shared = event.shared()) {
    const uint64_t number = shared->recorded();
    if (shared->reached(number)) return CUDA_SUCCESS;
    const auto wait = [shared, number] {
      shared->Wait(number);
      return CUDA_SUCCESS;
    };
    return stream.Submit(wait, How::kQueue, true);
  }
  const std::shared_ptr<Recording> recording = event.latest();
  if (recording == nullptr || recording->done()) return CUDA_SUCCESS;
  const auto work = [recording] {
    recording->Wait();
    return CUDA_SUCCESS;
  };
  return stream.Submit(work, How::kQueue, true);
}

}  // namespace farcall::cpu_device
