// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/fabric_tender.h"

#include <time.h>

#include <algorithm>

namespace farcall {
namespace {

constexpr timespec kPause = {0, 500'000};  // between two rounds while there is work

}  // namespace

FabricTender& FabricTender::OfProcess() {
  static auto* tender = new FabricTender;
  return *tender;
}

void FabricTender::Add(FabricTended* tended) {
  std::lock_guard lock(mutex_);
  tended_.push_back(tended);
}

void FabricTender::Remove(FabricTended* tended) {
  std::lock_guard lock(mutex_);
  std::erase(tended_, tended);
}

// Where no thread can be had, whoever waits in a channel still moves it.
void FabricTender::WakeUp() {
  std::lock_guard lock(mutex_);
  if (!thread_.started()) (void)thread_.Start("farcall-fabric", &FabricTender::Run, this);
  changed_.notify_all();
}

void FabricTender::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!has_work_.exchange(false)) {
      changed_.wait(lock);
      continue;
    }
    bool has_more = false;
    for (FabricTended* tended : tended_) has_more |= tended->Tend();
    if (has_more) {
      has_work_ = true;
      lock.unlock();
      nanosleep(&kPause, nullptr);
      lock.lock();
    }
  }
}

}  // namespace farcall
