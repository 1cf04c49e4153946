// SPDX-License-Identifier: Apache-2.0
// Incoming frames: read by whichever thread pumps, checked, delivered once and in order.
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/codec.h"
#include "proto/records.h"
#include "transport/link/frame_check.h"
#include "transport/link/link_core.h"
#include "transport/poll.h"

namespace farcall {
namespace {

constexpr size_t kReceiveBytes = kMaxFrameBytes + (256u << 10);

// Names the thread that reads, which must never wait for what only reading brings.
class PumpScope {
 public:
  explicit PumpScope(std::atomic<uintptr_t>& thread) : thread_(thread) {
    thread_ = reinterpret_cast<uintptr_t>(pthread_self());
  }
  ~PumpScope() { thread_ = 0; }

 private:
  std::atomic<uintptr_t>& thread_;
};

}  // namespace

Status LinkCore::Pump(Clock::time_point deadline, int wake_fd) {
  PumpScope scope(pump_thread_);
  bool is_readable = false;
  for (;;) {
    if (phase_ >= Phase::kClosing) return Closed();
    if (!HasReader() && !RefreshReader()) {
      if (WaitAttached(deadline, wake_fd)) continue;
      return {Code::kTimeout, "link: not connected"};
    }
    // A caller that waits for its answer: the question has just left, and where spins are in vain,
    // so is one look.
    const bool awaits_answer = wake_fd < 0 && deadline != Clock::time_point();
    const SpinPolicy::Ns budget =
        awaits_answer && !is_readable ? answer_spin_.Budget() : SpinPolicy::Ns::zero();
    const bool looks = is_readable || !awaits_answer || budget != SpinPolicy::Ns::zero();
    Result<size_t> got = !looks        ? Result<size_t>(size_t{0})
                         : is_readable ? reader_->TryReceive(ReceiveRoom())
                                       : ReceiveSpinning(deadline, wake_fd, budget);
    is_readable = false;
    if (!got.ok()) {
      Lose(reader_generation_, got.status());
      continue;
    }
    if (*got == 0) {
      is_readable = WaitReadable(deadline, wake_fd);
      if (is_readable) continue;
      return {Code::kTimeout, "link: nothing came"};
    }
    received_bytes_ += *got;
    bytes_in_ += *got;
    last_heard_ = Clock::now();
    bool any = false;
    Status status = DeliverBuffered(&any);
    if (!status.ok()) {
      RequestClose(status, /*tell_peer=*/true);
      return Closed();
    }
    AcknowledgeIfDue();
    if (std::exchange(is_asked_, false)) SendControl();
    if (any) return {};
  }
}

// Follows the log to its present connection; what is left of a lost one is half a frame, sent
// again.
bool LinkCore::RefreshReader() {
  if (reader_generation_ != generation_) {
    std::lock_guard lock(mutex_);
    reader_ = log_;
    reader_generation_ = generation_;
    received_bytes_ = 0;
  }
  if (reader_ != nullptr && received_ == nullptr) received_.reset(new std::byte[kReceiveBytes]);
  return reader_ != nullptr;
}

// True if there is something to look at again; false at the deadline or for `wake_fd`.
bool LinkCore::WaitAttached(Clock::time_point deadline, int wake_fd) {
  eventfd_t count;
  eventfd_read(
      pump_wake_fd_,
      &count);  // before the look at the phase: a change after it sets the descriptor again
  if (attached() || phase_ >= Phase::kClosing) return true;
  std::array<pollfd, 2> fds = {{{pump_wake_fd_, POLLIN, 0}, {wake_fd, POLLIN, 0}}};
  PollUntil({fds.data(), wake_fd < 0 ? 1u : 2u}, deadline);
  return fds[0].revents != 0;
}

std::span<std::byte> LinkCore::ReceiveRoom() {
  return {received_.get() + received_bytes_, kReceiveBytes - received_bytes_};
}

// Spins a little before it gives up: waking a sleeping thread costs more than most answers take.
//   `budget`  of a caller that waits for its answer; zero for a thread that takes what comes, if it
//             comes, and has one of its own
Result<size_t> LinkCore::ReceiveSpinning(Clock::time_point deadline, int wake_fd,
                                         SpinPolicy::Ns budget) {
  SpinPolicy& policy = wake_fd < 0 ? answer_spin_ : idle_spin_;
  std::span<std::byte> room = ReceiveRoom();
  Result<size_t> got = reader_->TryReceive(room);
  if (!got.ok() || *got != 0) return got;
  if (budget == SpinPolicy::Ns::zero()) {
    if (deadline <= Clock::now()) return got;
    budget = policy.Budget();
  }
  uint32_t turn = 0;
  // A look at the descriptor is a system call, whatever the other costs.
  const uint32_t turns = reader_->LooksAreCheap() ? 64 : 4;
  Spin(policy, budget, [&] {
    pollfd wake{wake_fd, POLLIN, 0};
    if (wake_fd >= 0 && ++turn % turns == 0 && poll(&wake, 1, 0) > 0) return true;
    got = reader_->TryReceive(room);
    return !got.ok() || *got != 0;
  });
  return got;
}

inline Status LinkCore::DeliverBuffered(bool* any) {
  size_t at = 0;
  while (received_bytes_ - at >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, received_.get() + at, sizeof(header));
    if (!IsSound(header)) return CheckFrameHeader(header);  // which says what is wrong
    if (header.bytes > received_bytes_ - at) break;
    FARCALL_TRY(DeliverFrame(header, {received_.get() + at, header.bytes}));
    at += header.bytes;
  }
  *any = at != 0;
  received_bytes_ -= at;
  if (at != 0 && received_bytes_ != 0)
    std::memmove(received_.get(), received_.get() + at, received_bytes_);
  return {};
}

[[gnu::noinline]] Status LinkCore::RefuseFrame(const FrameHeader& header, uint64_t expected) const {
  if (header.seq != expected) {
    return {Code::kMalformed,
            "frame: seq " + std::to_string(header.seq) + ", expected " + std::to_string(expected)};
  }
  return {Code::kMalformed, "frame: chunks_sent " + std::to_string(header.chunks_sent) + ", was " +
                                std::to_string(peer_chunks_sent_) + " before"};
}

inline Status LinkCore::DeliverFrame(const FrameHeader& header, std::span<std::byte> frame) {
  if (!HasRightSum(header, frame)) [[unlikely]]
    return CheckFrameSum(header, frame);
  if (IsNews(header)) FARCALL_TRY(HandleAcks(header));
  if (heard_generation_ != reader_generation_) {
    heard_generation_ = reader_generation_;
    std::lock_guard lock(mutex_);
    PokeService();
  }
  is_asked_ |= (header.flags & kFrameAsks) != 0;
  uint64_t expected = received_seq_ + 1;
  if (header.seq < expected) {
    return {};
  }  // outside the log, or sent again after we had it
  if (header.seq != expected || header.chunks_sent < peer_chunks_sent_) [[unlikely]]
    return RefuseFrame(header, expected);
  std::span<const std::byte> records = frame.subspan(sizeof(FrameHeader));
  RecordCursor all(records);
  RecordView record;
  bool says_goodbye = false;
  while (all.Next(record))
    says_goodbye |= record.header.call == static_cast<uint16_t>(SessionCall::kGoodbye);
  if (!all.Done() || all.count() != header.records)
    return CheckRecords(records, header.records);  // which says what is wrong
  peer_chunks_sent_ = header.chunks_sent;
  bytes_since_ack_ += frame.size();
  ++frames_in_;
  received_seq_ =
      header.seq;  // before the call: a resume meanwhile must not ask for this frame again
  stirred_.store(true, std::memory_order_relaxed);
  Status status = observer_.OnFrame({header, records});
  if (!status.ok() || !says_goodbye) return status;
  RecordCursor cursor(records);
  while (cursor.Next(record))
    if (record.header.call == static_cast<uint16_t>(SessionCall::kGoodbye))
      HandleGoodbye(record.body);
  return {};
}

void LinkCore::HandleGoodbye(std::span<const std::byte> body) {
  Reader reader(body);
  auto number = reader.Get<int32_t>();
  std::string reason(reader.GetString());
  bool known = reader.Done() && number > 0 && number <= static_cast<int32_t>(Code::kInternal);
  if (reason.empty()) reason = "the peer ended the session";
  RequestClose({known ? static_cast<Code>(number) : Code::kDisconnected, reason},
               /*tell_peer=*/false);
}

// Holds mutex_.
[[gnu::noinline]] Status LinkCore::RefuseAcks(const FrameHeader& header) const {
  if (header.ack > offered_seq_) {
    return {Code::kMalformed, "frame: ack " + std::to_string(header.ack) + ", only " +
                                  std::to_string(offered_seq_) + " frames were sent"};
  }
  return {Code::kMalformed, "frame: chunk_ack " + std::to_string(header.chunk_ack) + ", only " +
                                std::to_string(chunk_offered_) + " chunks were sent"};
}

inline Status LinkCore::HandleAcks(const FrameHeader& header) {
  {
    std::lock_guard lock(mutex_);
    if (header.ack > offered_seq_ || header.chunk_ack > chunk_offered_) [[unlikely]]
      return RefuseAcks(header);
    acks_seen_ = acked_seq_ = std::max(acked_seq_, header.ack);
    chunk_acks_seen_ = chunk_acked_ = std::max(chunk_acked_, header.chunk_ack);
    ReleaseTail();
    if (chunk_released_ < chunk_acked_) ReleaseChunks();
  }
  if (done_waiting_) RunDone();
  return {};
}

// A peer that sends without asking would fill its tail and wait: it hears from us before that.
void LinkCore::AcknowledgeIfDue() {
  uint64_t stamped = ack_stamped_;
  if (stamped != ack_stamp_seen_) {
    ack_stamp_seen_ = stamped;
    bytes_since_ack_ = 0;
  }
  uint64_t unacked = received_seq_ - stamped;
  if (unacked >= ack_frames_ || (unacked != 0 && bytes_since_ack_ >= ack_bytes_)) SendControl();
}

}  // namespace farcall
