// SPDX-License-Identifier: Apache-2.0
// Records of the driver API: a row of the generated table for each.
#pragma once

#include <functional>

#include "server/session/record_pipeline.h"

namespace farcall::server {

class CallRecords {
 public:
  // `end`: the session, whose peer has broken the protocol.   Thread  any
  CallRecords(Session& session, const DriverApi& api, RecordPipeline& pipeline, WorkGate& gate,
              std::function<void(const Status&)> end)
      : session_(session), api_(api), pipeline_(pipeline), gate_(gate), end_(std::move(end)) {}

  //   Thread  the issue thread
  Status Serve(const RecordView& record, Turn& turn, Served* served);

 private:
  class One;
  void SubmitToHelper(const RecordView& record, ContextState* context, const DispatchRow& row);

  Session& session_;
  const DriverApi& api_;
  RecordPipeline& pipeline_;
  WorkGate& gate_;
  const std::function<void(const Status&)> end_;
};

}  // namespace farcall::server
