// SPDX-License-Identifier: Apache-2.0
// The session's life and its link: frames in, output out. Records are put in order in
// record_order.cc.
#include "server/session/session_loop.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/device/event_clock.h"
#include "transport/poll.h"

namespace farcall::server {

namespace {

using std::chrono::milliseconds;

LinkOptions OptionsOfLink(const SessionOptions& options) {
  LinkOptions link;
  link.is_client = false;
  link.lanes = options.lanes;
  link.grace_ms = options.grace_ms;
  link.heartbeat_ms = options.heartbeat_ms;
  link.idle_after_ms = options.idle_after_ms;
  link.packing = options.packing;
  link.spin_us = options.spin_us;
  return link;
}

}  // namespace

SessionLoop::SessionLoop(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker)
    : api_(api),
      options_(options),
      link_(std::make_unique<Link>(*this, OptionsOfLink(options))),
      session_(std::make_unique<Session>(api, options, broker, *link_)),
      gate_(api, options.gate, options.clock,
            [this](int device, std::function<void()> done) {
              session_->contexts().FenceDevice(device, std::move(done));
            }),
      pipeline_(*session_, gate_),
      calls_(*session_, api, pipeline_, gate_, [this](const Status& why) { Stop(why); }),
      libraries_(*session_, api, pipeline_, gate_, [this](const Status& why) { Stop(why); }),
      reader_(
          *link_, [this] { session_->Wake(); },
          [this](const RecordView& record) { return ServeEarly(record); }),
      nvml_helper_([] {}) {
  session_->OnForgetContext([this](CUcontext context) { libraries_.ForgetContext(context); });
}

// What waits on a thread may hold something of what follows the session.
SessionLoop::~SessionLoop() {
  nvml_helper_.Stop();
  reader_.Stop();
  session_->StopThreads();
  link_.reset();
  session_.reset();
}

void SessionLoop::Stop(const Status& why) {
  {
    std::lock_guard lock(end_mutex_);
    if (stop_requested_ || !end_reason_.ok()) return;  // it ends already, for what came first
    stop_request_ = why;
    stop_requested_ = true;
  }
  session_->Wake();
}

Status SessionLoop::Run() {
  // The client applies the rules of capture modes; no thread of ours may break a capture by a
  // housekeeping call.
  if (api_.cuThreadExchangeStreamCaptureMode != nullptr) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    api_.cuThreadExchangeStreamCaptureMode(&mode);
  }
  Status status;
  while (!ended_ && !stop_requested_) {
    SpinForCompletions();
    auto deadline = NextDeadline();
    status = ReadLog(deadline);
    if (!status.ok()) break;
    session_->ClearWake();
    status = ServeBacklog();
    if (!status.ok()) break;
    gate_.Serve();
    if (options_.swap != nullptr) options_.swap->Serve(*this);
  }
  reader_.Stop();
  Status reason = status;
  {
    std::lock_guard lock(end_mutex_);
    if (stop_requested_)
      reason = stop_request_;
    else if (!end_reason_.ok())
      reason = end_reason_;
  }
  if (!ended_) {
    session_->outbox().Flush();
    link_->Close(reason);  // says goodbye with it
  }
  return reason;
}

Clock::time_point SessionLoop::NextDeadline() {
  quota::Ns at = gate_.ServeAt();
  if (options_.swap != nullptr) at = std::min(at, options_.swap->ServeAt());
  // Nothing is under way: whatever may begin wakes this thread.
  const bool is_idle = at == ComputeGate::kNever && backlog_.empty() && !reader_.active() &&
                       session_->completion().idle();
  if (is_idle) return Clock::time_point::max();
  auto deadline = Clock::now() + milliseconds(1000);
  return at == ComputeGate::kNever
             ? deadline
             : std::min(deadline, Clock::time_point(std::chrono::nanoseconds(at)));
}

// A reply is often a few microseconds away: looking here saves the hand-over to the polling thread.
// Where it is not, as beside long kernels, that thread looks alone.
void SessionLoop::SpinForCompletions() {
  Completion& completion = session_->completion();
  if (completion.idle()) return;
  bool all_reached = Spin(spin_, [&completion] {
    completion.Poll(false);
    return completion.idle();
  });
  if (all_reached) return;
  if (std::exchange(kicked_order_, completion.last_order()) != completion.last_order())
    completion.Kick();
}

Status SessionLoop::ReadLog(Clock::time_point deadline) {
  pollfd wake{session_->wake_fd(), POLLIN, 0};
  const bool has_read = reader_.active();
  if (session_->host_calls().expected())
    reader_.Start();
  else
    reader_.Stop();
  Status status;
  if (has_read) {
    std::vector<ReadRecords> read;
    status = reader_.Take(backlog_.empty(), &read);
    for (ReadRecords& records : read) PutBack(std::move(records.bytes), records.chunks_sent);
    if (!read.empty() || !status.ok()) return status;
  }
  if (session_->backlog_full())
    poll(&wake, 1, 100);
  else if (reader_.active())
    PollUntil({&wake, 1}, deadline);
  else
    status = link_->Pump(deadline, session_->wake_fd());
  return status.code() == Code::kTimeout ? Status() : status;
}

// That a host function has run, and what it wrote before, by what serves them in the log's order:
// it touches nothing there that is the issue thread's. Other records go the way of the log; so does
// what is refused here, to be refused there.
LogReader::Early SessionLoop::ServeEarly(const RecordView& record) {
  Reader in(record.body);
  switch (static_cast<SessionCall>(record.header.call)) {
    case SessionCall::kHostDone:
      return ServeHostDone(record.header, in).ok() ? LogReader::Early::kServed
                                                   : LogReader::Early::kKept;
    case SessionCall::kMirrorUp: {
      const bool is_inline = Reader(record.body).Get<uint64_t>() == 0;  // the others await bytes
      Served served = Served::kDone;
      return is_inline && ServeMirrorUp(record.header, in, &served).ok()
                 ? LogReader::Early::kServed
                 : LogReader::Early::kKeptFirst;
    }
    default:
      return LogReader::Early::kKept;
  }
}

Status SessionLoop::OnFrame(const FrameView& frame) {
  if (stop_requested_) return {};
  if (reader_.IsCurrent()) {
    reader_.OnFrame(frame);
    return {};
  }
  if (!backlog_.empty()) {
    PutBack({frame.records.begin(), frame.records.end()}, frame.header.chunks_sent);
    return {};
  }
  size_t served_bytes = 0;
  Status status = ServeRecords(frame.records, frame.header.chunks_sent, &served_bytes);
  if (!status.ok()) {
    Stop(status);  // Run says goodbye, then closes
    return {};
  }
  if (served_bytes < frame.records.size()) {
    const auto rest = frame.records.subspan(served_bytes);
    PutBack({rest.begin(), rest.end()}, frame.header.chunks_sent);
  }
  EndOfFrame();
  return {};
}

void SessionLoop::EndOfFrame() {
  session_->contexts().FenceNotedFrees();
  gate_.Serve();
  session_->outbox().Flush();
}

std::span<std::byte> SessionLoop::ChunkDestination(const ChunkHeader& header) {
  return session_->landing().Destination(header);
}

void SessionLoop::OnChunk(const ChunkHeader& header) {
  session_->landing().Landed(header);
}

void SessionLoop::OnDetached(const Status&) {}

void SessionLoop::OnReattached() {}

void SessionLoop::OnClosed(const Status& why) {
  {
    std::lock_guard lock(end_mutex_);
    if (end_reason_.ok()) end_reason_ = why;
    ended_ = true;
  }
  session_->landing().Stop();
  session_->host_calls().FinishAll();
  session_->Wake();
}

void SessionLoop::FenceAll(std::function<void()> done) {
  auto left = std::make_shared<std::atomic<int>>(options_.devices + 1);
  auto one_less = [left, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) done();
  };
  for (int device = 0; device < options_.devices; ++device)
    session_->contexts().FenceDevice(device, one_less);
  one_less();
}

}  // namespace farcall::server
