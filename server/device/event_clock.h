// SPDX-License-Identifier: Apache-2.0
// Device time by the device's own clock, where its driver keeps no count: events around the gate's
// batches. Nothing is recorded while nobody shares the device.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "generated/server/driver_api.h"
#include "quota/compute_quota.h"

namespace farcall::server {

// A batch counts from its begin, or from the end of the one before it if that is later, until the
// last of its streams is done: the union of the batches' times, without the pauses between them.
class EventClock {
 public:
  // The events around what one batch did in one context.
  struct Part {
    CUcontext context = nullptr;
    CUevent begin = nullptr;
    std::vector<CUevent> ends;
  };
  using Batch = std::vector<Part>;

  explicit EventClock(const DriverApi& api) : api_(api) {}
  // What has to be there: some drivers' tables are partial.
  static bool CanMeasure(const DriverApi& api);

  // ---- the issue thread; the context is current
  // Work is about to go to the device.
  void Begin(int device, CUcontext context);
  // It did not, but waits for something else: a batch that it began has not begun.
  void Cancel(int device);
  void Submitted(int device);
  // The batch ends with what is there now: End for each stream that may have work, then Reached
  // once all of it has run.
  std::shared_ptr<Batch> Close(int device);
  void End(Batch& batch, CUcontext context, CUstream stream);

  // ---- any thread
  void Reached(int device, const Batch& batch);
  // Since the first batch.
  quota::Ns used(int device);
  // The context is about to go, and its events with it.
  void ForgetContext(CUcontext context);

 private:
  struct Device {
    std::shared_ptr<Batch> open;
    bool submitted = false;  // something of the open batch went
    quota::Ns used_ns = 0;
  };
  struct Context {
    CUstream own = nullptr;  // for begins: it has nothing to wait for
    CUevent last_end = nullptr;
    std::vector<CUevent> free;
  };

  CUevent Record(Context& state, CUstream stream);
  quota::Ns Measure(const Part& part);
  static void Keep(Context& state, CUevent event);

  const DriverApi& api_;
  std::mutex mutex_;  // all below
  std::map<int, Device> devices_;
  std::map<CUcontext, Context> contexts_;
};

}  // namespace farcall::server
