// SPDX-License-Identifier: Apache-2.0
// How a record that makes a call is let through, whatever kind of call it is: behind what it must
// not overtake, with its context, past the gate, to its server function or to a helper.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "proto/status.h"
#include "server/session/work_gate.h"
#include "server/state/session.h"

namespace farcall::server {

enum class Served { kDone, kStalled };  // kStalled: nothing has been done, its turn comes again

class RecordPipeline {
 public:
  // What is known of a call before it is served.
  struct Nature {
    bool by_streams = false;  // ordered by the streams and events it names; else behind all
    bool has_context = false;
    bool needs_context = false;
    bool touches_graphs = false;
    bool slow = false;
  };

  // One call.   Thread  the issue thread, one after the other
  class Call {
   public:
    virtual ~Call() = default;
    // Once its context is known: the key of the work that it puts on the device; 0: none.
    virtual uint64_t Work() = 0;
    // Slow ones: hands it to a helper, which answers. `work`: admitted.
    virtual Status Submit(uint64_t work) = 0;
    // The others: calls it, its context being current.
    virtual Status Serve() = 0;
    // It was called, or was not to be called for what `result` says: answers.
    virtual void Finish() = 0;
  };

  RecordPipeline(Session& session, WorkGate& gate) : session_(session), gate_(gate) {}

  Status Pass(ServeCall& call, const Nature& nature, Call& body, Served* served);
  // Graphs stay as they are while this lives.   Thread  any, to its end
  std::shared_ptr<void> HoldGraphs();

 private:
  Session& session_;
  WorkGate& gate_;
  std::atomic<int> graphs_held_{0};  // by slow calls
};

}  // namespace farcall::server
