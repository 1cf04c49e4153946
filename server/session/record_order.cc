// SPDX-License-Identifier: Apache-2.0
// Records in their order: from a frame, from the backlog of a stalled log, from the side queue.
#include <cstring>
#include <utility>

#include "server/session/session_loop.h"

namespace farcall::server {

Status SessionLoop::ServeBacklog() {
  if (session_->side_queue().empty() && backlog_.empty()) return {};
  if (!session_->side_queue().empty() && options_.swap != nullptr && !options_.swap->Admit())
    return {};
  FARCALL_TRY(ServeSideQueue());
  while (!backlog_.empty()) {
    Waiting& next = backlog_.front();
    size_t served_bytes = 0;
    FARCALL_TRY(ServeRecords(std::span(next.bytes).subspan(next.served_bytes), next.chunks_sent,
                             &served_bytes));
    next.served_bytes += served_bytes;
    if (next.served_bytes < next.bytes.size()) break;
    backlog_bytes_ -= next.bytes.size();
    session_->SetBacklogFull(backlog_bytes_ > kMaxBacklogBytes);
    backlog_.pop_front();
  }
  EndOfFrame();
  return {};
}

void SessionLoop::PutBack(std::vector<std::byte> records, uint64_t chunks_sent) {
  backlog_bytes_ += records.size();
  backlog_.push_back({std::move(records), 0, chunks_sent});
  session_->SetBacklogFull(backlog_bytes_ > kMaxBacklogBytes);
}

Status SessionLoop::ServeSideQueue() {
  Status status;
  session_->side_queue().ServeAll([&](SideQueue::Entry& entry) {
    RecordCursor cursor(entry.bytes);
    RecordView record;
    cursor.Next(record);
    // What it names is known already; what it resolves now is the same or less.
    Footprint touched = std::move(entry.turn.touched);
    entry.turn.Retry();
    Served served = Served::kDone;
    status = record.header.call >= kFirstSessionCall ? ServeSessionCall(record, entry.turn, &served)
                                                     : calls_.Serve(record, entry.turn, &served);
    entry.turn.touched = std::move(touched);
    return !status.ok() ? -1 : served == Served::kDone ? 1 : 0;
  });
  return status;
}

Status SessionLoop::ServeRecords(std::span<const std::byte> records, uint64_t chunks_sent,
                                 size_t* served_bytes) {
  RecordCursor cursor(records);
  RecordView record;
  while (cursor.Next(record)) {
    Served served = Served::kDone;
    head_.chunks_sent = chunks_sent;
    head_.Retry();
    FARCALL_TRY(ServeRecord(record, &served));
    if (served == Served::kStalled && !MoveAside(record)) return {};
    head_.Reset();
    *served_bytes += record.header.bytes;
    if (ShouldHandOver()) return {};
  }
  if (!cursor.Done()) return {Code::kMalformed, "a record's length does not fit its frame"};
  return {};
}

// A record that waits for bytes, or for one that does, leaves the log so that others may pass.
// While a stream captures, the latter keep their places: what is captured follows the log.
bool SessionLoop::MoveAside(const RecordView& record) {
  bool may_leave = head_.awaits_bytes || (head_.blocked && session_->streams().captures() == 0);
  if (!may_leave || session_->side_queue().bytes() > kMaxBacklogBytes) return false;
  std::vector<std::byte> bytes(record.header.bytes);
  std::memcpy(bytes.data(), &record.header, sizeof(record.header));
  std::memcpy(bytes.data() + sizeof(record.header), record.body.data(), record.body.size());
  session_->side_queue().Push(std::move(bytes), std::move(head_));
  return true;
}

Status SessionLoop::ServeRecord(const RecordView& record, Served* served) {
  if (session_->retained().has_replaced() && !session_->helper_busy())
    session_->retained().DeleteReplaced();
  // The log stands until a helper has room: the client then waits to send more, and nothing grows.
  if (session_->HelperFull()) {
    *served = Served::kStalled;
    return {};
  }
  if (options_.swap != nullptr && !AdmitsMemory(record.header)) {
    *served = Served::kStalled;
    return {};
  }
  if (record.header.call >= kFirstSessionCall) return ServeSessionCall(record, head_, served);
  return calls_.Serve(record, head_, served);
}

// Records that touch nothing on a device are served wherever the memory is; above all what work
// under way may wait for.
bool SessionLoop::AdmitsMemory(const RecordHeader& header) {
  switch (static_cast<SessionCall>(header.call)) {
    case SessionCall::kHeartbeat:
    case SessionCall::kGoodbye:
    case SessionCall::kNvml:
    case SessionCall::kHostDone:
      return true;
    case SessionCall::kReturnCredit:
      return options_.swap->AdmitReturn();
    default:
      return options_.swap->Admit();
  }
}

}  // namespace farcall::server
