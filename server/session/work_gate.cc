// SPDX-License-Identifier: Apache-2.0
#include "server/session/work_gate.h"

#include <utility>

#include "server/device/current_context.h"

namespace farcall::server {

bool WorkGate::Admit(int device, CUcontext context, uint64_t key) {
  NoteEnded();
  if (slow_ != nullptr) return false;  // its batch ends with it, and wakes this thread
  if (!gate_->Admit(device, key)) return false;
  if (clock_ != nullptr) {
    CurrentContext::Set(api_, context);
    clock_->Begin(device, context);
  }
  return true;
}

void WorkGate::Stalled(int device) {
  if (clock_ != nullptr) clock_->Cancel(device);
}

void WorkGate::Submitted(int device, uint64_t key) {
  if (clock_ != nullptr) clock_->Submitted(device);
  if (gate_->Submitted(device, key)) Serve();
}

std::shared_ptr<WorkGate::SlowWork> WorkGate::StartSlow(int device, uint64_t key) {
  slow_ = std::make_shared<SlowWork>();
  slow_->device = device;
  slow_->key = key;
  return slow_;
}

void WorkGate::NoteEnded() {
  if (slow_ != nullptr && slow_->ended.load()) {
    std::shared_ptr<SlowWork> ended = std::exchange(slow_, nullptr);
    Submitted(ended->device, ended->key);
  }
}

void WorkGate::Serve() {
  NoteEnded();
  if (engaged()) gate_->Serve(fence_);
}

}  // namespace farcall::server
