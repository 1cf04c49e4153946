// SPDX-License-Identifier: Apache-2.0
#include "bench/sharing/sim_device.h"

#include <algorithm>
#include <utility>

namespace farcall::sharing {

void SimDevice::Submit(size_t tenant, Ns duration_ns, std::function<void()> done) {
  tenants_[tenant].queue.push_back({std::max<Ns>(duration_ns, 1), std::move(done)});
  if (!running_) RunNext();
}

Ns SimDevice::busy_ns(size_t tenant) const {
  Ns running = 0;
  if (running_ && tenant == current_ && time_.now() > run_begun_)
    running = std::min(time_.now() - run_begun_, run_ns_);
  return tenants_[tenant].busy_ns + running;
}

// The current tenant while its slice lasts or nobody else has work; else the next in the round.
void SimDevice::RunNext() {
  size_t next = current_;
  if (tenants_[current_].queue.empty() || slice_left_ <= 0) {
    for (size_t step = 1; step <= tenants_.size(); ++step) {
      next = (current_ + step) % tenants_.size();
      if (!tenants_[next].queue.empty()) break;
    }
    slice_left_ = kSlice;
  }
  if (tenants_[next].queue.empty()) return;
  Ns price = next == current_ ? 0 : kSwitch;
  switches_ += next == current_ ? 0 : 1;
  current_ = next;
  running_ = true;
  run_begun_ = time_.now() + price;
  run_ns_ = std::min(tenants_[next].queue.front().left_ns, slice_left_);
  time_.At(run_begun_ + run_ns_, [this] { EndRun(); });
}

void SimDevice::EndRun() {
  Tenant& tenant = tenants_[current_];
  tenant.busy_ns += run_ns_;
  slice_left_ -= run_ns_;
  running_ = false;
  Work& work = tenant.queue.front();
  work.left_ns -= run_ns_;
  std::function<void()> done;
  if (work.left_ns == 0) {
    done = std::move(work.done);
    tenant.queue.pop_front();
  }
  // Work behind it runs on without a pause; what `done` submits comes after.
  RunNext();
  if (done) done();
}

}  // namespace farcall::sharing
