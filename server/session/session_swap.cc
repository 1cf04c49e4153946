// SPDX-License-Identifier: Apache-2.0
// What a session's memory waits for before it leaves the device, and what waits for it.
#include <atomic>
#include <memory>

#include "server/session/session.h"

namespace farcall::server {

// Records that touch nothing on a device are served wherever the memory is; above all what work
// under way may wait for.
bool Session::AdmitsMemory(const RecordHeader& header) {
  switch (static_cast<SessionCall>(header.call)) {
    case SessionCall::kHeartbeat:
    case SessionCall::kGoodbye:
    case SessionCall::kNvml:
    case SessionCall::kHostDone:
      return true;
    case SessionCall::kReturnCredit:
      return options_.swap->AdmitReturn();
    default:
      return options_.swap->Admit();
  }
}

void Session::FenceAll(std::function<void()> done) {
  auto left = std::make_shared<std::atomic<int>>(options_.devices + 1);
  auto one_less = [left, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) {
      done();
    }
  };
  for (int device = 0; device < options_.devices; ++device) {
    FenceDevice(device, one_less);
  }
  one_less();
}

// A helper that waits for room works with nothing: it may be the very room others wait for.
bool Session::Quiet() {
  int busy = (helper_.busy() ? 1 : 0) + (memory_helper_.busy() ? 1 : 0);
  return captures_.load() == 0 && completion_.idle() && !library_helper_.busy() &&
         busy <= broker_.waiting_charges() + options_.swap->waiting_splits();
}

bool Session::MakeRoom(int device, uint64_t bytes) {
  return options_.swap != nullptr && memory_.SplitsFor(device, bytes) &&
         options_.swap->Split(device);
}

std::map<int, CUcontext> Session::Contexts() {
  std::map<int, CUcontext> contexts;
  for (const std::unique_ptr<ContextState>& context : all_contexts_) {
    if (context->native != nullptr && contexts_[context->slot] == context.get() &&
        table(HandleKind::kContext).FindNewest(context->slot).state == HandleTable::State::kLive) {
      contexts.try_emplace(context->device, context->native);
    }
  }
  return contexts;
}

}  // namespace farcall::server
