// SPDX-License-Identifier: Apache-2.0
// A session's contexts, by the slot that the client names, and the frees noted in each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "proto/records.h"
#include "server/state/objects/context_state.h"
#include "server/state/objects/handle_table.h"
#include "server/state/objects/streams.h"

namespace farcall::server {

class EventClock;

//   Thread  the issue thread, unless said otherwise
class Contexts final {
 public:
  // The frees noted up to that epoch have been made.   Thread  any
  using Freed = std::function<void(uint16_t slot, uint64_t epoch)>;

  // `table`: of contexts. `clock`: as SessionOptions has it.
  Contexts(const DriverApi& api, HandleTable& table, Streams& streams, EventClock* clock,
           Freed freed);

  // The context in `slot`, whatever its state; null if there never was one.
  ContextState* at(uint16_t slot) const { return slots_[slot]; }
  ContextState& Make(uint16_t slot);
  // The one a record names: the slot's newest life. `may_come`: a helper may be making it.
  // `*stalled`: it is still in the making.
  CUresult Find(const RecordHeader& header, bool may_come, ContextState** context, bool* stalled);
  // Of each device, the native one of a context that lives.
  std::map<int, CUcontext> Live();
  // Null: none is.   Thread  any: it is the thread's
  void MakeCurrent(const ContextState* context);

  // Runs `done` once all work now on the device's streams has completed, whatever its errors.
  void FenceDevice(int device, std::function<void()> done);

  // Submits the fence of the frees noted so far.
  void FenceFrees(ContextState& context);
  void NoteFree(ContextState& context, uint64_t epoch, std::function<void()> free);
  // The same of all contexts with frees noted since the last time.
  void FenceNotedFrees();

 private:
  bool IsLive(const ContextState& context);

  const DriverApi& api_;
  HandleTable& table_;
  Streams& streams_;
  EventClock* const clock_;
  const Freed freed_;
  std::vector<ContextState*> slots_;
  std::vector<std::unique_ptr<ContextState>> all_;  // late answers may name gone ones
  std::vector<uint16_t> dirty_;                     // with frees noted in this frame
};

}  // namespace farcall::server
