// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/credit_queue.h"

#include <algorithm>

namespace farcall::client {

CUresult CreditQueue::Run(int device, uint64_t bytes, const std::function<CUresult()>& attempt) {
  std::unique_lock lock(mutex_);
  Line& line = lines_[device];
  if (line.busy) {
    Waiter own;
    own.bytes = bytes;
    line.waiters.push_back(&own);
    own.changed.wait(lock, [&own] { return own.leads || own.refused; });
    if (own.refused) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  line.busy = true;
  const size_t present = line.waiters.size();  // nobody leaves the line while the attempt runs
  lock.unlock();
  const CUresult status = attempt();
  lock.lock();
  const bool is_short = status == CUDA_ERROR_OUT_OF_MEMORY;
  if (is_short) Refuse(&line, present, bytes);
  HandOn(&line, is_short);
  return status;
}

size_t CreditQueue::waiting(int device) {
  std::lock_guard lock(mutex_);
  return lines_[device].waiters.size();
}

// Of the first `present` waiters, those who want as much.
void CreditQueue::Refuse(Line* line, size_t present, uint64_t bytes) {
  for (auto at = line->waiters.begin(); present != 0; --present) {
    Waiter* waiter = *at;
    if (waiter->bytes < bytes) {
      ++at;
      continue;
    }
    at = line->waiters.erase(at);
    waiter->refused = true;
    waiter->changed.notify_one();
  }
}

// Where memory is short the smallest asks next: its refusal is everybody's.
void CreditQueue::HandOn(Line* line, bool is_short) {
  line->busy = !line->waiters.empty();
  if (!line->busy) return;
  auto next = line->waiters.begin();
  if (is_short) {
    next = std::min_element(line->waiters.begin(), line->waiters.end(),
                            [](const Waiter* a, const Waiter* b) { return a->bytes < b->bytes; });
  }
  Waiter* waiter = *next;
  line->waiters.erase(next);
  waiter->leads = true;
  waiter->changed.notify_one();
}

}  // namespace farcall::client
