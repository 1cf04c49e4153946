// SPDX-License-Identifier: Apache-2.0
#include "server/session/call_records.h"

#include "generated/proto/call_info.h"
#include "server/calls/context.h"
#include "server/device/current_context.h"
#include "server/session/gated_calls.h"

namespace farcall::server {

class CallRecords::One final : public RecordPipeline::Call {
 public:
  One(CallRecords& records, const RecordView& record, const CallInfo& info, const DispatchRow& row,
      ServeCall& call)
      : records_(records), record_(record), info_(info), row_(row), call_(call) {}

  uint64_t Work() override {
    if (!records_.gate_.engaged() || call_.context == nullptr) return 0;
    const uint64_t key = WorkKey(record_);
    // Captured, it costs nothing now: that must not be learnt for when it runs.
    return key != 0 && records_.session_.streams().captures() > 0 ? ~key : key;
  }

  Status Submit(uint64_t) override {
    records_.SubmitToHelper(record_, call_.context, row_);
    return {};
  }

  Status Serve() override {
    const bool is_later = info_.touches_libraries && records_.session_.libraries_busy();
    return is_later ? EndStreamBehindLibraries(call_) : row_.serve(call_);
  }

  void Finish() override {
    records_.session_.streams().NoteCapture(info_.capture, call_.result);
    records_.session_.Finish(call_);
  }

 private:
  CallRecords& records_;
  const RecordView& record_;
  const CallInfo& info_;
  const DispatchRow& row_;
  ServeCall& call_;
};

Status CallRecords::Serve(const RecordView& record, Turn& turn, Served* served) {
  const RecordHeader& header = record.header;
  const DispatchRow* row = header.call < kDispatchRows ? &kDispatchTable[header.call] : nullptr;
  ServeCall call(session_, api_, header, record.body, turn);
  if (row == nullptr || row->serve == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    session_.Finish(call);
    return {};
  }
  const CallInfo& info = InfoOf(header.call);
  One one(*this, record, info, *row, call);
  return pipeline_.Pass(call,
                        {.by_streams = info.by_streams,
                         .has_context = header.context != 0,
                         .needs_context = info.needs == CallNeeds::kContext,
                         .touches_graphs = info.touches_graphs,
                         .slow = info.slow},
                        one, served);
}

void CallRecords::SubmitToHelper(const RecordView& record, ContextState* context,
                                 const DispatchRow& row) {
  // Graphs stay as they are while a slow call has one.
  std::shared_ptr<void> held;
  if (InfoOf(record.header.call).touches_graphs) held = pipeline_.HoldGraphs();
  auto header = std::make_shared<RecordHeader>(record.header);
  auto body = std::make_shared<std::vector<std::byte>>(record.body.begin(), record.body.end());
  session_.OnHelper(
      [this, header, body, context, held, &row] {
        Turn turn;
        ServeCall call(session_, api_, *header, *body, turn);
        call.on_helper = true;
        call.context = context;
        CurrentContext::Set(api_, context == nullptr ? nullptr : context->native);
        Status status = row.serve(call);
        if (status.ok()) status = call.RejectStatus();
        if (!status.ok()) return end_(status);
        session_.Finish(call);
      },
      record.body.size());
}

}  // namespace farcall::server
