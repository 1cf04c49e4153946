// SPDX-License-Identifier: Apache-2.0
// The message kLibrary: a call of a mathematics library, ordered, gated and answered as a launch
// is; and what a client asks of the libraries themselves.
#pragma once

#include <functional>
#include <memory>

#include "server/library/library_loader.h"
#include "server/session/record_pipeline.h"

namespace farcall::server {

class LibraryRecords {
 public:
  // `end`: the session, whose peer has broken the protocol.   Thread  any
  LibraryRecords(Session& session, const DriverApi& api, RecordPipeline& pipeline, WorkGate& gate,
                 std::function<void(const Status&)> end)
      : session_(session),
        api_(api),
        pipeline_(pipeline),
        gate_(gate),
        end_(std::move(end)),
        loader_(api) {}

  //   Thread  the issue thread
  Status Serve(const RecordView& record, Turn& turn, Served* served);
  // The native context is about to go.   Thread  any
  void ForgetContext(CUcontext context) { loader_.ForgetContext(context); }

 private:
  class One;
  void Open(ServeCall& call, const LibraryHeader& header, const LibraryTable& table);
  void ServeBlob(ServeCall& call, const LibraryHeader& header);
  // Of what is served beside the functions; false: it is none of it.
  bool ServeQuestion(ServeCall& call, const LibraryHeader& header, const LibraryTable& table);
  Status SubmitApart(const RecordView& record, const LibraryHeader& header, const LibraryRow& row);
  Status SubmitSlow(const ServeCall& call, const RecordView& record, const LibraryHeader& header,
                    const LibraryRow& row, uint64_t admitted);
  Status HoldObjects(const RecordView& record, const LibraryHeader& header, const LibraryRow& row,
                     ContextState* context, std::shared_ptr<void>* held);
  void Answer(LibraryCall& library, const LibraryHeader& header);
  bool IsIdle(ServeCall& call, uint64_t wire_stream);

  Session& session_;
  const DriverApi& api_;
  RecordPipeline& pipeline_;
  WorkGate& gate_;
  const std::function<void(const Status&)> end_;
  LibraryLoader loader_;
};

}  // namespace farcall::server
