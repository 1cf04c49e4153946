// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_tender.h"

#include <time.h>

#include <algorithm>

namespace farcall {
namespace {

constexpr timespec kPause = {0, 500'000};  // between two rounds while there is work

}  // namespace

UcxTender& UcxTender::OfProcess() {
  static auto* tender = new UcxTender;
  return *tender;
}

void UcxTender::Add(UcxTended* tended) {
  std::lock_guard lock(mutex_);
  tended_.push_back(tended);
}

void UcxTender::Remove(UcxTended* tended) {
  std::lock_guard lock(mutex_);
  std::erase(tended_, tended);
}

// Where no thread can be had, whoever waits in a channel still moves it.
void UcxTender::WakeUp() {
  std::lock_guard lock(mutex_);
  if (!thread_.started()) {
    (void)thread_.Start("farcall-ucx", &UcxTender::Run, this);
  }
  changed_.NotifyAll();
}

void UcxTender::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!has_work_.exchange(false)) {
      changed_.Wait(lock);
      continue;
    }
    bool has_more = false;
    for (UcxTended* tended : tended_) {
      has_more |= tended->Tend();
    }
    if (has_more) {
      has_work_ = true;
      lock.unlock();
      nanosleep(&kPause, nullptr);
      lock.lock();
    }
  }
}

}  // namespace farcall
