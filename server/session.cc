// SPDX-License-Identifier: Apache-2.0
// The issue loop: frames in, records served in order, answers out.
#include "server/session.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "proto/call_id.h"
#include "server/current_context.h"

namespace farcall::server {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

LinkOptions OptionsOfLink(const SessionOptions& options) {
  LinkOptions link;
  link.is_client = false;
  link.lanes = options.lanes;
  link.grace_ms = options.grace_ms;
  link.heartbeat_ms = options.heartbeat_ms;
  link.spin_us = options.spin_us;
  return link;
}

}  // namespace

Session::Session(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker)
    : api_(api),
      options_(options),
      link_(Link::Create(*this, OptionsOfLink(options))),
      outbox_(*link_),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      memory_(api, broker),
      landing_(
          api, options.landing_slots, options.max_landing_heap_bytes, [this] { Wake(); },
          [this](uint64_t bytes) {
            Builder body;
            body.Put<uint64_t>(bytes);
            outbox_.Push(SessionCall::kUsed, body.bytes());
          }),
      readback_(api, kMaxChunkBytes, options.readback_slots, 8),
      small_readback_(api, kMaxInlineBytes, 256, 16),
      images_(options.image_directory),
      contexts_(UINT16_MAX + 1),
      gate_(std::make_unique<quota::OpenGate>()),
      completion_(api,
                  [this] {
                    outbox_.Flush();
                    Wake();
                  }),
      helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      memory_helper_([this] {
        outbox_.Flush();
        Wake();
      }) {}

Session::~Session() {
  EndHostCalls();
  landing_.Stop();
  helper_.Stop();
  memory_helper_.Stop();
  completion_.Stop();
  link_.reset();
  DeleteExtras();
  if (wake_fd_ >= 0) {
    close(wake_fd_);
  }
}

void Session::DeleteExtras() {
  for (HandleKind kind :
       {HandleKind::kStream, HandleKind::kEvent, HandleKind::kFunction, HandleKind::kKernel}) {
    table(kind).ForEachLive(
        [kind](uint32_t, uint16_t, void*, void* extra) { DeleteExtra(kind, extra); });
  }
  for (auto [kind, extra] : buried_) {
    DeleteExtra(kind, extra);
  }
}

void Session::Wake() {
  uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Session::Stop(const Status& why) {
  {
    std::lock_guard lock(end_mutex_);
    if (stop_requested_) {
      return;
    }
    stop_request_ = why;
    stop_requested_ = true;
  }
  Wake();
}

Status Session::Run() {
  // The client applies the rules of capture modes; no thread of ours may break a capture by a
  // housekeeping call.
  if (api_.cuThreadExchangeStreamCaptureMode != nullptr) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    api_.cuThreadExchangeStreamCaptureMode(&mode);
  }
  Status status;
  while (!ended_ && !stop_requested_) {
    SpinForCompletions();
    auto deadline = Clock::now() + milliseconds(1000);
    if (backlog_full()) {
      pollfd wake{wake_fd_, POLLIN, 0};
      poll(&wake, 1, 100);
    } else {
      status = link_->Pump(deadline, wake_fd_);
      if (!status.ok() && status.code() != Code::kTimeout) {
        break;
      }
    }
    uint64_t drained;
    (void)!read(wake_fd_, &drained, sizeof(drained));
    status = ServeBacklog();
    if (!status.ok()) {
      break;
    }
  }
  Status reason = status;
  {
    std::lock_guard lock(end_mutex_);
    if (stop_requested_) {
      reason = stop_request_;
    } else if (!end_reason_.ok()) {
      reason = end_reason_;
    }
  }
  if (!ended_) {
    outbox_.Flush();
    link_->Close(reason);  // says goodbye with it
  }
  return reason;
}

// A reply is often a few microseconds away: looking here saves the hand-over to the polling thread.
void Session::SpinForCompletions() {
  if (completion_.idle()) {
    return;
  }
  auto end = Clock::now() + microseconds(options_.spin_us);
  do {
    completion_.Poll(false);
    if (completion_.idle()) {
      return;
    }
  } while (Clock::now() < end);
  completion_.Kick();
}

Status Session::OnFrame(const FrameView& frame) {
  if (stop_requested_) {
    return {};
  }
  if (!backlog_.empty()) {
    backlog_.push_back({{frame.records.begin(), frame.records.end()}, 0, frame.header.chunks_sent});
    backlog_bytes_ += frame.records.size();
    return {};
  }
  size_t served_bytes = 0;
  Status status = ServeRecords(frame.records, frame.header.chunks_sent, &served_bytes);
  if (!status.ok()) {
    Stop(status);  // Run says goodbye, then closes
    return {};
  }
  if (served_bytes < frame.records.size()) {
    auto rest = frame.records.subspan(served_bytes);
    backlog_.push_back({{rest.begin(), rest.end()}, 0, frame.header.chunks_sent});
    backlog_bytes_ += rest.size();
  }
  EndOfFrame();
  return {};
}

Status Session::ServeBacklog() {
  if (side_.empty() && backlog_.empty()) {
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
    entry.turn.blocked = entry.turn.awaits_bytes = false;
    // What it names is known already; what it resolves now is the same or less.
    Footprint touched = std::move(entry.turn.touched);
    entry.turn.touched = {};
    Served served = Served::kDone;
    status = record.header.call >= kFirstSessionCall ? ServeSessionCall(record, &served)
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
  if (record.header.call >= kFirstSessionCall) {
    return ServeSessionCall(record, served);
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

Status Session::ServeCallRecord(const RecordView& record, Turn& turn, Served* served) {
  const RecordHeader& header = record.header;
  const DispatchRow* row = header.call < kDispatchRows ? &kDispatchTable[header.call] : nullptr;
  ServeCall call(*this, api_, header, record.body, turn);
  if (row == nullptr || row->serve == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    Finish(call);
    return {};
  }
  if (!row->by_streams && !side_.ahead().empty()) {
    turn.touched.everything = turn.blocked = true;
    *served = Served::kStalled;
    return {};
  }
  if (header.context != 0 || row->needs_context) {
    CUresult result = PrepareContext(header, &call.context, &call.stalled);
    if (call.stalled) {
      *served = Served::kStalled;
      return {};
    }
    if (row->needs_context) {
      call.result = result;
    }
  }
  if (call.result == CUDA_SUCCESS) {
    if (gate_->Admit({header.call, header.context, false}) == quota::Gate::Verdict::kHold) {
      *served = Served::kStalled;
      return {};
    }
    if (row->slow) {
      SubmitToHelper(record, *row);
      return {};
    }
    if (call.context != nullptr) {
      MakeCurrent(call.context);
    }
    FARCALL_TRY(row->serve(call));
    if (call.stalled && !call.lie()) {
      *served = Served::kStalled;
      return {};
    }
    FARCALL_TRY(call.LieStatus());
  }
  if (call.result == CUDA_SUCCESS) {
    if (header.call == static_cast<uint16_t>(CallId::cuStreamBeginCapture_v2)) {
      ++captures_;
    }
    if (header.call == static_cast<uint16_t>(CallId::cuStreamEndCapture)) {
      --captures_;
    }
  }
  Finish(call);
  return {};
}

void Session::SubmitToHelper(const RecordView& record, const DispatchRow& row) {
  auto header = std::make_shared<RecordHeader>(record.header);
  auto body = std::make_shared<std::vector<std::byte>>(record.body.begin(), record.body.end());
  ContextState* context = nullptr;
  if (header->context != 0) {
    bool stalled = false;
    PrepareContext(*header, &context, &stalled);
  }
  helper_.Submit([this, header, body, context, &row] {
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
  });
}

void Session::Finish(ServeCall& call) {
  if (call.parked) {
    return;
  }
  Answer(call.header, call.result, call.out.bytes(), call.detail);
}

void Session::Answer(const RecordHeader& header, CUresult result, std::span<const std::byte> out,
                     const std::string& detail) {
  if ((header.flags & kWantReply) != 0) {
    outbox_.Reply(header, result, out);
  } else if (result != CUDA_SUCCESS) {
    outbox_.Error(header, result, detail);
  }
}

Status Session::Malformed(const RecordHeader& header, const std::string& what) {
  return {Code::kMalformed, "session call " + std::to_string(header.call) + ": " + what};
}

void Session::EndOfFrame() {
  for (uint16_t slot : dirty_contexts_) {
    ContextState* context = contexts_[slot];
    if (context != nullptr && context->native != nullptr) {
      FenceFrees(*context);
    }
  }
  dirty_contexts_.clear();
  outbox_.Flush();
}

std::span<std::byte> Session::ChunkDestination(const ChunkHeader& header) {
  return landing_.Destination(header);
}

void Session::OnChunk(const ChunkHeader& header) {
  landing_.Landed(header);
}

void Session::OnDetached(const Status&) {}

void Session::OnReattached() {}

void Session::OnClosed(const Status& why) {
  {
    std::lock_guard lock(end_mutex_);
    if (end_reason_.ok()) {
      end_reason_ = why;
    }
    ended_ = true;
  }
  landing_.Stop();
  EndHostCalls();
  Wake();
}

void Session::DrainOutput() {
  if (options_.output_fd < 0) {
    return;
  }
  std::fflush(stdout);
  std::lock_guard lock(output_mutex_);
  std::byte buffer[8192];
  while (true) {
    ssize_t got = read(options_.output_fd, buffer, sizeof(buffer));
    if (got <= 0) {
      return;
    }
    Builder body;
    body.PutBytes(buffer, static_cast<size_t>(got));
    outbox_.Push(SessionCall::kOutput, body.bytes());
  }
}

// A driver empties the buffer of device printf at its own blocking waits, which the worker does not
// use.
void Session::FlushPrintf(CUcontext context) {
  if (prints_) {
    CurrentContext::Set(api_, context);
    // Any stream's wait empties it: one that never has work does not make us wait.
    std::unique_lock lock(flush_mutex_);
    auto [stream, is_new] = flush_streams_.try_emplace(context, nullptr);
    if (is_new && api_.cuStreamCreate(&stream->second, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
      stream->second = nullptr;
    }
    CUstream idle = stream->second;
    lock.unlock();
    if (idle != nullptr) {
      api_.cuStreamSynchronize(idle);
    }
    DrainOutput();
  }
}

void Session::ForgetContext(CUcontext context) {
  completion_.ForgetContext(context);
  landing_.slots().ForgetContext(context);
  readback_.ForgetContext(context);
  small_readback_.ForgetContext(context);
  std::lock_guard lock(flush_mutex_);
  flush_streams_.erase(context);
}

std::byte* Session::KeepBytes(std::span<const std::byte> bytes) {
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(copy));
  return kept_.back().get();
}

void Session::Bury(HandleKind kind, void* extra) {
  std::lock_guard lock(kept_mutex_);
  if (extra != nullptr) {
    buried_.emplace_back(kind, extra);
  }
}

bool Session::capturing(CUstream stream) {
  if (captures_.load() <= 0) {
    return false;
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return api_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace farcall::server
