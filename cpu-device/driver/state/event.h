// SPDX-License-Identifier: Apache-2.0
// Events: a point in a stream, when it was reached, and who waits for it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/ipc_event.h"
#include "cpu-device/driver/state/stream.h"
#include "sync/cond_var.h"

namespace farcall::cpu_device {

class Context;

// One recording of an event. Recording again makes a new one; waits hold the one they saw.
class Recording {
 public:
  void Complete();
  bool done() const;
  void Wait();
  std::chrono::steady_clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  CondVar reached_;
  bool done_ = false;
  std::chrono::steady_clock::time_point time_;
};

class Event {
 public:
  Event(Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared = nullptr)
      : context_(context), flags_(flags), shared_(std::move(shared)) {}

  Context& context() const { return context_; }
  bool timed() const { return (flags_ & CU_EVENT_DISABLE_TIMING) == 0; }
  CUevent handle() { return reinterpret_cast<CUevent>(this); }

  // With other processes; nullptr: with none. Then only it knows what was recorded.
  const std::shared_ptr<SharedEvent>& shared() const { return shared_; }
  // nullptr before the first record.
  std::shared_ptr<Recording> latest() const;
  CUresult Record(Stream& stream);

  // The capture that last recorded this event, and the graph nodes that stand for it.
  void SetCaptured(std::weak_ptr<Capture> capture, std::vector<CUgraphNode> nodes);
  std::shared_ptr<Capture> captured(std::vector<CUgraphNode>* nodes) const;

 private:
  Context& context_;
  const unsigned flags_;
  const std::shared_ptr<SharedEvent> shared_;
  mutable std::mutex mutex_;
  std::shared_ptr<Recording> latest_;
  std::weak_ptr<Capture> capture_;
  std::vector<CUgraphNode> capture_nodes_;
};

// Holds back what comes later in `stream` until the event's latest recording is reached.
CUresult WaitForEvent(Stream& stream, const Event& event);

}  // namespace farcall::cpu_device
