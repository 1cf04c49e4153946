// SPDX-License-Identifier: Apache-2.0
// A session's streams: which have work, which are captured, and waiting for what is on them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "generated/proto/call_info.h"
#include "server/device/completion.h"
#include "server/state/objects/context_state.h"
#include "server/state/queues/mirror_reports.h"

namespace farcall::server {

class ComputeGate;

//   Thread  the issue thread, unless said otherwise
class Streams final {
 public:
  // `gate`: as SessionOptions has it.
  Streams(const DriverApi& api, Completion& completion, MirrorReports& mirror_reports,
          const ComputeGate* gate)
      : api_(api), completion_(completion), mirror_reports_(mirror_reports), gate_(gate) {}

  // Of Completion's queues: no other stream has it, nor will have.   Thread  any
  uint64_t NewKey() { return ++last_key_; }
  // A client thread's default stream, made when it is first asked for. Null: `*result` says why,
  // unless it said something else before.
  StreamState* PerThread(ContextState& context, uint16_t thread, CUresult* result);
  void MarkActive(StreamState& stream);
  // Work that may write mirrored memory was put on the stream.   Thread  any
  void NoteWork(const StreamState& stream) {
    mirror_reports_.Submitted(stream.key, completion_.last_order());
  }
  // The stream has no work left.
  void NoteIdle(const StreamState& stream) { mirror_reports_.Idle(stream.key); }
  // The stream is about to be destroyed: what is on it still counts for the context's waits.
  void Orphan(StreamState& stream);

  // Whether a copy put on the stream now would begin at once: neither it nor what it is ordered
  // with has work left. The context is current. False where the device's time is lent, too: then a
  // wait for the device may be one for a neighbour.
  bool StartsAtOnce(const StreamState& stream);

  // Runs `done` once all work now on the context's streams has completed, with the first error.
  // Parks even if idle while something passed is still to be told of. Returns false, `done` not
  // run, if there was nothing to wait for.
  bool Fence(ContextState& context, std::function<void(CUresult)> done, CUresult* result);
  // The same for one stream.
  bool FenceStream(StreamState& stream, std::function<void(CUresult)> done, CUresult* result);
  // Those of a context that have work; the others are no longer active.
  std::vector<StreamState*> Busy(ContextState& context, CUresult* result);
  // Runs `reached` once what is on the stream now has completed.
  CUresult AddPoint(const StreamState& stream, std::function<void(CUresult)> reached);

  bool capturing(CUstream stream);
  // How many captures are under way: `capturing` asks the driver only then.   Thread  any
  int captures() const { return captures_.load(); }
  void NoteCapture(CallCapture capture, CUresult result);

 private:
  void WaitForOrphans(CUcontext context, std::vector<std::shared_ptr<Watch>> orphans,
                      std::function<void()> done);

  const DriverApi& api_;
  Completion& completion_;
  MirrorReports& mirror_reports_;
  const ComputeGate* const gate_;
  std::atomic<uint64_t> last_key_{0};
  std::atomic<int> captures_{0};
};

}  // namespace farcall::server
