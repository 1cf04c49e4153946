// SPDX-License-Identifier: Apache-2.0
// The service thread: what no caller may wait to write, redial, grace, and the end. Heartbeats and
// silence are in liveness.cc.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic ignored "-Wstringop-overflow"  // wrong where GCC 12 inlines the library
#endif

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "proto/codec.h"
#include "transport/link/link_core.h"

namespace farcall {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr auto kFlushLimit = std::chrono::seconds(1);
constexpr auto kCloseLimit = std::chrono::seconds(5);
constexpr auto kSlice = milliseconds(20);

bool IsFinal(Code code) {
  return code != Code::kDisconnected && code != Code::kTimeout && code != Code::kUnavailable;
}

}  // namespace

LinkCore::LinkCore(LinkObserver& observer, const LinkOptions& options, Link::Reconnect reconnect)
    : observer_(observer),
      options_(options),
      reconnect_(std::move(reconnect)),
      ack_frames_(std::clamp<uint64_t>(options.max_tail_bytes / kBatchBytes / 4, 1, 256)),
      ack_bytes_(std::clamp<uint64_t>(options.max_tail_bytes / 4, 1, 1u << 20)),
      pump_wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      sums_frames_(options.checksum),
      answer_spin_(std::chrono::microseconds(options.spin_us)),
      idle_spin_(std::chrono::microseconds(options.spin_us)) {
  for (uint32_t i = 0; i < options.lanes; ++i) {
    const bool always_packs = options.packing == LinkOptions::Packing::kAlways;
    lanes_.push_back(std::make_unique<Lane>(always_packs, options.lanes));
    lanes_.back()->index = i;
  }
  if (!service_.Start("farcall-link", &LinkCore::Serve, this)) {
    phase_ = Phase::kClosed;
    why_ = {Code::kUnavailable, "link: no thread can be started"};
  }
}

LinkCore::~LinkCore() {
  RequestClose({Code::kDisconnected, "link: closed"}, /*tell_peer=*/true);
  service_.Join();
  {
    std::lock_guard lock(mutex_);
    stop_lanes_ = true;
    lane_cv_.notify_all();
  }
  for (const auto& lane : lanes_) {
    lane->reader_thread.Join();
    lane->writer_thread.Join();
  }
  close(pump_wake_fd_);
}

void LinkCore::PokeService() {
  ++service_ticket_;
  service_cv_.notify_all();
}

void LinkCore::Serve() {
  Lock lock(mutex_);
  for (;;) {
    uint64_t ticket = service_ticket_;
    ReportChanges(lock);
    Clock::time_point wake = Clock::time_point::max();
    if (phase_ == Phase::kAttached) wake = TendAttached(lock);
    if (phase_ == Phase::kDetached) wake = TendDetached(lock);
    if (phase_ == Phase::kClosing) return Finish(lock);
    if (ticket == service_ticket_ && wake > Clock::now()) service_cv_.wait_until(lock, wake);
  }
}

void LinkCore::ReportChanges(Lock& lock) {
  if (reported_epoch_ != epoch_ && phase_ < Phase::kClosing) {
    reported_epoch_ = epoch_;
    reported_detached_ = true;
    Status why = break_why_;
    lock.unlock();
    observer_.OnDetached(why);
    lock.lock();
  }
  if (reported_detached_ && phase_ == Phase::kAttached) {
    reported_detached_ = false;
    lock.unlock();
    observer_.OnReattached();
    lock.lock();
  }
}

Clock::time_point LinkCore::TendAttached(Lock& lock) {
  if (backlog_) {
    std::shared_ptr<Channel> channel = log_;
    lock.unlock();
    Drained drained = DrainLog();
    if (drained == Drained::kBlocked) channel->WaitWritable(Clock::now() + kSlice);
    lock.lock();
    if (drained == Drained::kIdle) backlog_ = LogPending();
  }
  if (phase_ != Phase::kAttached) return Clock::now();
  Clock::time_point alive = TendLiveness(lock);
  if (phase_ != Phase::kAttached || !lanes_wanted_ || lanes_open_)
    return backlog_ ? Clock::now() : alive;
  // Lanes of a resumed link are dialled once the peer is known to have taken the log: its first
  // frame says so.
  Clock::time_point now = Clock::now();
  if (reconnects_ != 0 && heard_generation_ != generation_ && !log_->WaitReadable(now))
    return backlog_ ? now : std::min(alive, now + kSlice);
  DialLanes(lock);
  return now;
}

Clock::time_point LinkCore::TendDetached(Lock& lock) {
  Clock::time_point now = Clock::now();
  Clock::time_point end = detached_since_ + milliseconds(options_.grace_ms);
  if (now >= end) {
    RequestCloseLocked(
        {Code::kDisconnected,
         "link lost for " +
             std::to_string(duration_cast<milliseconds>(now - detached_since_).count()) +
             " ms (grace " + std::to_string(options_.grace_ms) + " ms): " + break_why_.message()},
        /*tell_peer=*/false);
    return now;
  }
  if (!options_.is_client || reconnect_ == nullptr) return end;
  if (now >= next_dial_) Redial(lock);
  return std::min(end, next_dial_);
}

void LinkCore::Redial(Lock& lock) {
  uint64_t seq = received_seq_;
  uint64_t chunks = chunk_prefix_;
  lock.unlock();
  Result<Link::Reconnected> again = reconnect_(LinkRole::kLog, 0, seq, chunks);
  if (again.ok())
    AttachLog(std::move(again->channel), again->peer_received_seq, again->peer_received_chunks);
  lock.lock();
  if (again.ok() || phase_ != Phase::kDetached) return;
  if (IsFinal(again.status().code())) {
    Status why(again.status().code(), "link lost (" + break_why_.message() +
                                          ") and not resumed: " + again.status().message());
    return RequestCloseLocked(why, /*tell_peer=*/false);
  }
  next_dial_ = Clock::now() + milliseconds(backoff_ms_);
  backoff_ms_ = std::clamp<uint32_t>(backoff_ms_ * 2, 10, 1000);
}

void LinkCore::Close(const Status& why) {
  RequestClose(why, /*tell_peer=*/true);
  if (OnOwnThread()) return;
  Lock lock(mutex_);
  Clock::time_point limit = Clock::now() + kCloseLimit;
  while (phase_ != Phase::kClosed && Clock::now() < limit) closed_cv_.wait_until(lock, limit);
}

Status LinkCore::Closed() {
  if (phase_ < Phase::kClosing) return {};
  std::lock_guard lock(mutex_);
  return why_;
}

void LinkCore::RequestClose(const Status& why, bool tell_peer) {
  std::lock_guard lock(mutex_);
  RequestCloseLocked(why, tell_peer);
}

void LinkCore::RequestCloseLocked(const Status& why, bool tell_peer) {
  if (phase_ >= Phase::kClosing) return;
  why_ = why.ok()
             ? Status(Code::kDisconnected, why.message().empty() ? "session closed" : why.message())
             : why;
  tell_peer_ = tell_peer && log_ != nullptr;
  phase_ = Phase::kClosing;
  room_cv_.notify_all();
  received_cv_.notify_all();
  lane_cv_.notify_all();
  WakePump();
  PokeService();
}

// Says goodbye, lets the peer have what is queued, and ends everything.
void LinkCore::Finish(Lock& lock) {
  if (tell_peer_) {
    Status why = why_;
    lock.unlock();
    Builder body;
    body.Put<int32_t>(static_cast<int32_t>(why.code()));
    body.PutString(std::string_view(why.message()).substr(0, 4096));
    std::vector<std::byte>& bytes = body.mutable_bytes();
    bytes.resize(AlignUp(bytes.size(), 8));
    RecordHeader header;
    header.bytes = static_cast<uint32_t>(sizeof(header) + bytes.size());
    header.call = static_cast<uint16_t>(SessionCall::kGoodbye);
    auto frame = std::make_unique<FrameBuffer>(header.bytes);
    std::memcpy(frame->room().data(), &header, sizeof(header));
    std::memcpy(frame->room().data() + sizeof(header), bytes.data(), bytes.size());
    frame->Commit(header.bytes);
    uint64_t seq = 0;
    Status appended;
    {
      std::lock_guard order(order_);
      appended = AppendFrame(std::move(frame), /*closing=*/true, &seq);
    }
    lock.lock();
    if (appended.ok()) Flush(lock);
  }
  if (log_ != nullptr || !lanes_.empty()) BreakLocked(why_);
  Status why = why_;
  lock.unlock();
  DropAll();
  WakePump();
  observer_.OnClosed(why);
  lock.lock();
  phase_ = Phase::kClosed;
  closed_cv_.notify_all();
}

void LinkCore::Flush(Lock& lock) {
  // A peer that breaks the protocol gets the reason, not our patience.
  Clock::time_point limit =
      Clock::now() +
      (why_.code() == Code::kMalformed ? milliseconds(200) : milliseconds(kFlushLimit));
  auto bulk_pending = [this] {
    return ChunkPullable() && std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
             return lane->channel != nullptr;
           });
  };
  auto bulk_writing = [this] {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
      return lane->channel != nullptr && lane->writing_seq != 0;
    });
  };
  while (Clock::now() < limit && log_ != nullptr &&
         (LogPending() || bulk_pending() || bulk_writing())) {
    std::shared_ptr<Channel> channel = log_;
    bool log_pending = LogPending();
    lock.unlock();
    Drained drained = log_pending ? DrainLog() : Drained::kIdle;
    if (drained == Drained::kBlocked) channel->WaitWritable(Clock::now() + kSlice);
    lock.lock();
    if (drained == Drained::kIdle && !LogPending())
      room_cv_.wait_until(lock, Clock::now() + kSlice);
  }
}

// Every connection is closed: takes all writers' turns, so that nothing reads lent memory any more,
// and gives it back.
void LinkCore::DropAll() {
  {
    std::unique_lock log_turn(log_writer_);
    std::vector<Lock> lane_turns;
    for (const auto& lane : lanes_) lane_turns.emplace_back(lane->writer);
    std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) lane->writing_seq = 0;
    uint64_t acked = chunk_acked_;
    chunk_cursor_ = chunk_next_;
    chunk_acked_ = chunk_next_ - 1;
    ReleaseChunks();
    chunk_acked_ = acked;
    room_cv_.notify_all();
  }
  RunDone();
}

bool LinkCore::OnOwnThread() const {
  return service_.IsCurrent() || OnPumpThread() ||
         std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
           return lane->reader_thread.IsCurrent() || lane->writer_thread.IsCurrent();
         });
}

Link::Counters LinkCore::counters() const {
  return {frames_out_,      frames_in_,      bytes_out_, bytes_in_,
          chunk_bytes_out_, chunk_bytes_in_, reconnects_};
}

}  // namespace farcall
