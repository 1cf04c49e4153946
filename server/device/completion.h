// SPDX-License-Identifier: Apache-2.0
// Parked work: what to do once the device has reached a point of a stream. Polls, so that the issue
// thread never waits.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "generated/server/driver_api.h"
#include "sync/cond_var.h"

namespace farcall::server {

// One point of one stream.
struct Watch {
  using Action = std::function<void(CUresult)>;
  uint64_t order = 0;  // of the log: what completes later implies what was earlier
  CUcontext context = nullptr;
  CUevent event = nullptr;  // ours, of the pool; null: `ready` tells instead
  bool bulk = false;        // its action sends a device-to-host copy's bytes
  std::atomic<bool> ready{false};
  bool done = false;               // under Completion's mutex
  CUresult status = CUDA_SUCCESS;  // once done
  std::vector<Action> actions;
};

// Watches of one stream are reached in the order they were added. Before an action that tells the
// client anything, the bytes of every copy that is complete by then are sent: whoever hears of a
// completion finds the copies it implies. The polling thread starts with the first watch.
class Completion {
 public:
  // `after_actions` runs after a round in which actions ran (flushes the outbox, wakes the issue
  // thread).
  Completion(const DriverApi& api, std::function<void()> after_actions);
  ~Completion();
  // `on_reached` hears of each watch before its actions run.   Before the first watch
  void OnReached(std::function<void(uint64_t stream_key, uint64_t order)> on_reached) {
    on_reached_ = std::move(on_reached);
  }
  // Of the watch added last.
  uint64_t last_order() const { return next_order_.load(std::memory_order_relaxed); }

  // Records an event on `stream` and runs `action` when it is reached. The context is current.
  //   Thread  issue thread (and a helper, for its own context)
  CUresult Add(uint64_t stream_key, CUcontext context, CUstream stream, bool bulk,
               Watch::Action action);
  // The same, for a point others will attach to; null with `result` set if the driver refuses.
  std::shared_ptr<Watch> Add(uint64_t stream_key, CUcontext context, CUstream stream,
                             Watch::Action action, CUresult* result);
  // A point reached by Signal rather than by an event. `context`: what its action may still use,
  // null if nothing.
  std::shared_ptr<Watch> AddManual(uint64_t stream_key, CUcontext context, Watch::Action action);
  void Signal(const std::shared_ptr<Watch>& watch);
  // Adds an action to a watch; false if it is already done (`status` says how it went).
  bool Attach(const std::shared_ptr<Watch>& watch, Watch::Action action);

  // NOT_READY until the watch is done, then how it went.
  CUresult StatusOf(const std::shared_ptr<Watch>& watch);

  bool idle() const { return waiting_.load() == 0; }
  // Looks once at what may have been reached. Without `allow_bulk` nothing that may block on a lane
  // is done. Returns whether anything was reached.
  bool Poll(bool allow_bulk);
  // Wakes the polling thread: what was added since needs watching.
  void Kick();
  void Stop();

  // An event without timing, of `context`, which is current.
  CUresult TakeEvent(CUcontext context, CUevent* event);
  // Waits until every watch of the context has been passed: its work is done, and its events may
  // go.
  //   Thread  a helper
  void Drain(CUcontext context);
  // The context is about to be destroyed: its pooled events go with it.
  void ForgetContext(CUcontext context);

 private:
  using Queue = std::deque<std::shared_ptr<Watch>>;
  CUresult Record(uint64_t stream_key, CUcontext context, CUstream stream,
                  const std::shared_ptr<Watch>& watch, Watch::Action action);
  void Append(uint64_t stream_key, std::shared_ptr<Watch> watch);
  std::vector<std::pair<uint64_t, std::shared_ptr<Watch>>> Heads();
  std::shared_ptr<Watch> HeadOf(uint64_t stream_key);
  bool Reached(Watch& watch);
  // Sends the bytes of complete copies earlier than `order`; false if that is not allowed now.
  bool SendBulkBefore(uint64_t order, bool allow_bulk);
  void Finish(uint64_t stream_key, const std::shared_ptr<Watch>& watch);
  void Run();

  const DriverApi& api_;
  std::function<void()> after_actions_;
  std::function<void(uint64_t, uint64_t)> on_reached_;
  std::mutex poll_mutex_;  // one poller; held while actions run
  std::mutex mutex_;       // the queues and the pool
  CondVar wake_;
  std::unordered_map<uint64_t, Queue> queues_;
  std::map<CUcontext, std::vector<CUevent>> pool_;
  std::atomic<uint64_t> next_order_{0};  // changed under the mutex
  std::atomic<size_t> waiting_{0};
  std::atomic<size_t> bulk_waiting_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
