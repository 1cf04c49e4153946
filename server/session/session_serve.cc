// SPDX-License-Identifier: Apache-2.0
// Records in their order: from a frame, from the backlog of a stalled log, from the side queue; to
// their server function, or to the helper.
#include <cstring>
#include <utility>

#include "proto/call_info.h"
#include "server/leases/compute_gate.h"
#include "server/session/current_context.h"
#include "server/session/event_clock.h"
#include "server/session/gated_calls.h"
#include "server/session/session.h"

namespace farcall::server {

Status Session::ServeBacklog() {
  if (side_.empty() && backlog_.empty()) {
    return {};
  }
  if (!side_.empty() && options_.swap != nullptr && !options_.swap->Admit()) {
    return {};
  }
  FARCALL_TRY(ServeSideQueue());
  while (!backlog_.empty()) {
    Waiting& next = backlog_.front();
    size_t served_bytes = 0;
    FARCALL_TRY(ServeRecords(std::span(next.bytes).subspan(next.served_bytes), next.chunks_sent,
                             &served_bytes));
    next.served_bytes += served_bytes;
    if (next.served_bytes < next.bytes.size()) {
      break;
    }
    backlog_bytes_ -= next.bytes.size();
    backlog_.pop_front();
  }
  EndOfFrame();
  return {};
}

Status Session::ServeSideQueue() {
  Status status;
  side_.ServeAll([&](SideQueue::Entry& entry) {
    RecordCursor cursor(entry.bytes);
    RecordView record;
    cursor.Next(record);
    // What it names is known already; what it resolves now is the same or less.
    Footprint touched = std::move(entry.turn.touched);
    entry.turn.Retry();
    Served served = Served::kDone;
    status = record.header.call >= kFirstSessionCall ? ServeSessionCall(record, entry.turn, &served)
                                                     : ServeCallRecord(record, entry.turn, &served);
    entry.turn.touched = std::move(touched);
    return !status.ok() ? -1 : served == Served::kDone ? 1 : 0;
  });
  return status;
}

Status Session::ServeRecords(std::span<const std::byte> records, uint64_t chunks_sent,
                             size_t* served_bytes) {
  RecordCursor cursor(records);
  RecordView record;
  while (cursor.Next(record)) {
    Served served = Served::kDone;
    head_.chunks_sent = chunks_sent;
    head_.Retry();
    FARCALL_TRY(ServeRecord(record, &served));
    if (served == Served::kStalled && !MoveAside(record)) {
      return {};
    }
    head_.Reset();
    *served_bytes += record.header.bytes;
  }
  if (!cursor.Done()) {
    return {Code::kMalformed, "a record's length does not fit its frame"};
  }
  return {};
}

// A record that waits for bytes, or for one that does, leaves the log so that others may pass.
// While a stream captures, the latter keep their places: what is captured follows the log.
bool Session::MoveAside(const RecordView& record) {
  bool may_leave = head_.awaits_bytes || (head_.blocked && captures_ == 0);
  if (!may_leave || side_.bytes() > kMaxBacklogBytes) {
    return false;
  }
  std::vector<std::byte> bytes(record.header.bytes);
  std::memcpy(bytes.data(), &record.header, sizeof(record.header));
  std::memcpy(bytes.data() + sizeof(record.header), record.body.data(), record.body.size());
  side_.Push(std::move(bytes), std::move(head_));
  return true;
}

Status Session::ServeRecord(const RecordView& record, Served* served) {
  if (replaced_count_.load() != 0 && !helper_.busy()) {
    DeleteReplaced();
  }
  // The log stands until a helper has room: the client then waits to send more, and nothing grows.
  if (HelperFull()) {
    *served = Served::kStalled;
    return {};
  }
  if (options_.swap != nullptr && !AdmitsMemory(record.header)) {
    *served = Served::kStalled;
    return {};
  }
  if (record.header.call >= kFirstSessionCall) {
    return ServeSessionCall(record, head_, served);
  }
  return ServeCallRecord(record, head_, served);
}

CUresult Session::PrepareContext(const RecordHeader& header, ContextState** context,
                                 bool* stalled) {
  if (header.context == 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  bool may_come = helper_.busy();
  // The slot's newest life: the client says the slot only.
  HandleTable::Found found = table(HandleKind::kContext).FindNewest(header.context);
  switch (found.state) {
    case HandleTable::State::kLive:
      *context = contexts_[header.context];
      return CUDA_SUCCESS;
    case HandleTable::State::kPending:
      *stalled = true;
      return CUDA_SUCCESS;
    case HandleTable::State::kFailed:
      return CUDA_ERROR_INVALID_CONTEXT;
    default:
      break;
  }
  if (may_come) {
    *stalled = true;
    return CUDA_SUCCESS;
  }
  return found.state == HandleTable::State::kDead ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                  : CUDA_ERROR_INVALID_CONTEXT;
}

void Session::MakeCurrent(ContextState* context) {
  CurrentContext::Set(api_, context == nullptr ? nullptr : context->native);
}

// How many captures are under way: `capturing` asks the driver only then.
void Session::NoteCapture(CallCapture capture, CUresult result) {
  switch (capture) {
    case CallCapture::kBegins:
      captures_ += result == CUDA_SUCCESS ? 1 : 0;
      return;
    case CallCapture::kEnds:
      // An invalid capture is over as well.
      captures_ -= result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                           result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                       ? 1
                       : 0;
      return;
    default:
      return;
  }
}

Status Session::ServeCallRecord(const RecordView& record, Turn& turn, Served* served) {
  const RecordHeader& header = record.header;
  const DispatchRow* row = header.call < kDispatchRows ? &kDispatchTable[header.call] : nullptr;
  ServeCall call(*this, api_, header, record.body, turn);
  if (row == nullptr || row->serve == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    Finish(call);
    return {};
  }
  const CallInfo& info = InfoOf(header.call);
  // A graph that a slow call has, its parent or its child: they are in no two threads' hands.
  if (graphs_held_.load() != 0 && info.touches_graphs && !info.slow) {
    *served = Served::kStalled;
    return {};
  }
  if (!info.by_streams && !side_.ahead().empty()) {
    turn.touched.everything = turn.blocked = true;
    *served = Served::kStalled;
    return {};
  }
  const bool needs_context = info.needs == CallNeeds::kContext;
  if (header.context != 0 || needs_context) {
    CUresult result = PrepareContext(header, &call.context, &call.stalled);
    if (call.stalled) {
      *served = Served::kStalled;
      return {};
    }
    if (needs_context) {
      call.result = result;
    }
  }
  if (call.result == CUDA_SUCCESS) {
    uint64_t work = GatedWork(record, call.context);
    if (work != 0 && !AdmitWork(*call.context, work)) {
      *served = Served::kStalled;
      return {};
    }
    if (info.slow) {
      SubmitToHelper(record, *row);
      return {};
    }
    if (call.context != nullptr) {
      MakeCurrent(call.context);
    }
    const bool is_later =
        header.call == static_cast<uint16_t>(CallId::cuStreamDestroy_v2) && libraries_busy();
    FARCALL_TRY(is_later ? DestroyStreamBehindLibraries(call) : row->serve(call));
    if (call.stalled && !call.lie()) {
      if (work != 0) {
        NoteStalledWork(call.context->device);
      }
      *served = Served::kStalled;
      return {};
    }
    FARCALL_TRY(call.LieStatus());
    if (work != 0) {
      NoteSubmittedWork(call.context->device, work);
    }
  }
  NoteCapture(info.capture, call.result);
  Finish(call);
  return {};
}

uint64_t Session::GatedWork(const RecordView& record, const ContextState* context) const {
  if (options_.gate == nullptr || !options_.gate->engaged() || context == nullptr) {
    return 0;
  }
  uint64_t key = WorkKey(record);
  // Captured, it costs nothing now: that must not be learnt for when it runs.
  return key != 0 && captures_.load() > 0 ? ~key : key;
}

bool Session::AdmitWork(ContextState& context, uint64_t work) {
  NoteEndedWork();
  if (slow_work_ != nullptr) {
    return false;  // its batch ends with it, and wakes this thread
  }
  if (!options_.gate->Admit(context.device, work)) {
    return false;
  }
  if (options_.clock != nullptr) {
    MakeCurrent(&context);
    options_.clock->Begin(context.device, context.native);
  }
  return true;
}

void Session::NoteStalledWork(int device) {
  if (options_.clock != nullptr) {
    options_.clock->Cancel(device);
  }
}

void Session::NoteSubmittedWork(int device, uint64_t work) {
  if (options_.clock != nullptr) {
    options_.clock->Submitted(device);
  }
  if (options_.gate->Submitted(device, work)) {
    ServeGate();
  }
}

void Session::NoteEndedWork() {
  if (slow_work_ != nullptr && slow_work_->ended.load()) {
    std::shared_ptr<SlowWork> ended = std::exchange(slow_work_, nullptr);
    NoteSubmittedWork(ended->device, ended->key);
  }
}

void Session::ServeGate() {
  NoteEndedWork();
  if (options_.gate != nullptr && options_.gate->engaged()) {
    options_.gate->Serve(
        [this](int device, std::function<void()> done) { FenceDevice(device, std::move(done)); });
  }
}

void Session::SubmitToHelper(const RecordView& record, const DispatchRow& row) {
  // Graphs stay as they are while a slow call has one.
  std::shared_ptr<void> held;
  if (InfoOf(record.header.call).touches_graphs) {
    ++graphs_held_;
    held = {nullptr, [this](void*) { --graphs_held_; }};
  }
  auto header = std::make_shared<RecordHeader>(record.header);
  auto body = std::make_shared<std::vector<std::byte>>(record.body.begin(), record.body.end());
  ContextState* context = nullptr;
  if (header->context != 0) {
    bool stalled = false;
    PrepareContext(*header, &context, &stalled);
  }
  helper_.Submit(
      [this, header, body, context, held, &row] {
        Turn turn;
        ServeCall call(*this, api_, *header, *body, turn);
        call.on_helper = true;
        call.context = context;
        CurrentContext::Set(api_, context == nullptr ? nullptr : context->native);
        Status status = row.serve(call);
        if (status.ok()) {
          status = call.LieStatus();
        }
        if (!status.ok()) {
          return Stop(status);
        }
        Finish(call);
      },
      record.body.size());
}

void Session::BehindLibraries(std::function<void()> task) {
  if (libraries_busy()) {
    library_helper_.Submit(std::move(task));
  } else {
    task();
  }
}

void Session::Finish(ServeCall& call) {
  if (call.parked) {
    return;
  }
  Answer(call.header, call.result, call.out.bytes(), call.detail);
}

void Session::Answer(const RecordHeader& header, CUresult result, std::span<const std::byte> out,
                     const std::string& detail) {
  // A kernel that fails has printed before: that comes ahead of its error.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
    DrainOutput();
  }
  if ((header.flags & kWantReply) != 0) {
    bool is_call = header.call < kFirstSessionCall ||
                   header.call == static_cast<uint16_t>(SessionCall::kLibrary);
    if (result == CUDA_SUCCESS && is_call) {
      TellMirrored();
    }
    outbox_.Reply(header, result, out);
  } else if (result != CUDA_SUCCESS) {
    outbox_.Error(header, result, detail);
  }
}

Status Session::Malformed(const RecordHeader& header, const std::string& what) {
  return {Code::kMalformed, "session call " + std::to_string(header.call) + ": " + what};
}

}  // namespace farcall::server
