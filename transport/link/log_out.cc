// SPDX-License-Identifier: Apache-2.0
// Outgoing frames: appended to the tail, written from there by whoever gets the writer's turn, kept
// until acknowledged.
#include <new>

#include "proto/crc32c.h"
#include "transport/link/link_core.h"

namespace farcall {
namespace {

constexpr auto kWaitSlice = std::chrono::milliseconds(100);

// As TrySend answers: 0 while the socket is full.
Result<size_t> FlushHeld(Channel& channel) {
  Result<bool> flushed = channel.Flush();
  return flushed.ok() ? Result<size_t>(size_t{*flushed}) : Result<size_t>(flushed.status());
}

// Texts are made apart from what is done for each frame, which then saves fewer registers.
[[gnu::noinline]] Status TooLarge(size_t bytes) {
  return {Code::kInvalid, "frame: " + std::to_string(bytes) + " bytes, at most " +
                              std::to_string(kMaxFrameBytes) + " fit"};
}

}  // namespace

std::unique_ptr<FrameBuffer> LinkCore::TakeBuffer(size_t capacity_bytes) {
  {
    std::lock_guard lock(pool_mutex_);
    std::unique_ptr<FrameBuffer> frame = frames_.Take(capacity_bytes);
    if (frame != nullptr) return frame;
  }
  return std::make_unique<FrameBuffer>(FramePool::Capacity(capacity_bytes));
}

Status LinkCore::SendFrame(std::unique_ptr<FrameBuffer>&& frame) {
  size_t bytes = FrameAccess::Frame(*frame).size();
  if (bytes > kMaxFrameBytes) [[unlikely]]
    return TooLarge(bytes);
  if (frame->records() == 0) [[unlikely]]
    return Closed();
  uint64_t seq = 0;
  {
    std::lock_guard order(order_);
    const size_t kept_bytes = FrameAccess::CapacityBytes(*frame);
    if (tail_bytes_ + kept_bytes > options_.max_tail_bytes) [[unlikely]] {
      // The frame owns its memory.
      // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks)
      FARCALL_TRY(WaitTailRoom(kept_bytes));
    }
    FARCALL_TRY(AppendFrame(std::move(frame), /*closing=*/false, &seq));
  }
  for (;;) {
    if (DrainLog() != Drained::kBlocked) [[likely]]
      return {};
    const bool may_wait = options_.is_client && !OnPumpThread();
    std::shared_ptr<Channel> channel;
    {
      std::lock_guard lock(mutex_);
      if (cursor_seq_ <= seq) channel = log_;
    }
    if (!may_wait || channel == nullptr) {
      RequestBacklog();
      return {};
    }
    channel->WaitWritable(Clock::now() + kWaitSlice);
  }
}

// A client's senders wait here for acknowledgements. A server may not wait, so its peer pays for
// not reading.
Status LinkCore::WaitTailRoom(size_t bytes) {
  // Only acknowledgements change it meanwhile, and they make it less.
  Lock lock(mutex_);
  bool may_wait = options_.is_client && !OnPumpThread();
  while (phase_ < Phase::kClosing && tail_bytes_ != 0 &&
         tail_bytes_ + bytes > options_.max_tail_bytes) {
    if (may_wait) {
      room_cv_.wait(lock);
      continue;
    }
    if (tail_bytes_ + bytes > 4 * options_.max_tail_bytes) {
      RequestCloseLocked({Code::kDisconnected,
                          "link: the peer acknowledges nothing, " + std::to_string(tail_bytes_) +
                              " bytes are kept for it (at most " +
                              std::to_string(4 * options_.max_tail_bytes) + ")"},
                         /*tell_peer=*/false);
    }
    break;
  }
  return phase_ < Phase::kClosing ? Status() : why_;
}

// Holds order_, so that the checksum, the long part, is made outside mutex_.
Status LinkCore::AppendFrame(std::unique_ptr<FrameBuffer>&& frame, bool closing, uint64_t* seq) {
  std::span<const std::byte> bytes = FrameAccess::Frame(*frame);
  FrameHeader& header = *new (FrameAccess::Header(*frame)) FrameHeader;
  header.bytes = static_cast<uint32_t>(bytes.size());
  header.seq = *seq = next_seq_;
  header.ack = received_seq_;
  header.chunk_ack = chunk_prefix_;
  header.chunks_sent = chunks_sent_;
  header.records = frame->records();
  if (sums_frames_) header.crc32c = Crc32c(0, bytes);
  std::lock_guard lock(mutex_);
  if (phase_ >= Phase::kClosing && !closing) return why_;
  ++next_seq_;
  tail_bytes_ += FrameAccess::CapacityBytes(*frame);
  tail_.PushBack(std::move(frame));
  ack_stamped_ = std::max(ack_stamped_.load(), header.ack);
  chunk_ack_stamped_ = std::max(chunk_ack_stamped_.load(), header.chunk_ack);
  stirred_.store(true, std::memory_order_relaxed);
  if (is_idle_.load(std::memory_order_relaxed)) [[unlikely]]
    EndIdleLocked();
  return {};
}

// The frame outside the log: says we live, and what we have.
void LinkCore::StampControl() {
  control_ = FrameHeader();
  control_.bytes = sizeof(FrameHeader);
  control_.ack = received_seq_;
  control_.chunk_ack = chunk_prefix_;
  control_.chunks_sent = chunks_sent_;
  control_.flags = std::exchange(ask_wanted_, false) ? kFrameAsks : 0;
  if (sums_frames_) control_.crc32c = Crc32c(0, std::as_bytes(std::span(&control_, 1)));
  ack_stamped_ = std::max(ack_stamped_.load(), control_.ack);
  chunk_ack_stamped_ = std::max(chunk_ack_stamped_.load(), control_.chunk_ack);
  chunk_bytes_unacked_ = 0;
  control_sent_bytes_ = 0;
  control_wanted_ = false;
}

// Collects what is to be written next. The memory stays: frames are released only below the cursor.
//   Before  LogPending()
inline bool LinkCore::GatherLogLocked() {
  LogWrite& write = log_write_;
  write.count = 0;
  if (write.generation != generation_) {
    write.channel = log_;
    write.generation = generation_;
  }
  if (control_wanted_ && cursor_bytes_ == 0 && control_sent_bytes_ == sizeof(control_))
    StampControl();
  if (control_sent_bytes_ < sizeof(control_)) {
    write.parts[write.count++] =
        std::as_bytes(std::span(&control_, 1)).subspan(control_sent_bytes_);
  }
  for (uint64_t seq = cursor_seq_; seq < next_seq_ && write.count < write.parts.size(); ++seq) {
    std::span<const std::byte> frame = FrameAccess::Frame(*tail_[seq - tail_first_seq_]);
    write.parts[write.count++] = seq == cursor_seq_ ? frame.subspan(cursor_bytes_) : frame;
    offered_seq_ = std::max(offered_seq_, seq);
  }
  return write.count != 0;
}

inline void LinkCore::AdvanceLogLocked(size_t bytes) {
  bytes_out_ += bytes;
  last_sent_ = Clock::now();
  size_t of_control = std::min(bytes, sizeof(control_) - control_sent_bytes_);
  control_sent_bytes_ += of_control;
  bytes -= of_control;
  while (bytes != 0) {
    size_t left_bytes =
        FrameAccess::Frame(*tail_[cursor_seq_ - tail_first_seq_]).size() - cursor_bytes_;
    if (bytes < left_bytes) {
      cursor_bytes_ += bytes;
      break;
    }
    bytes -= left_bytes;
    cursor_bytes_ = 0;
    ++cursor_seq_;
    ++frames_out_;
  }
  if (tail_first_seq_ <= acked_seq_) ReleaseTail();
}

// Gives the writer's turn up. Once nothing is left it does so under mutex_: who appends behind that
// look finds the turn free, so nothing is forgotten.
LinkCore::Drained LinkCore::DrainLogAsWriter(Lock& turn) {
  const LogWrite& write = log_write_;
  Lock lock(mutex_);
  while (LogPending()) {
    const bool has_parts = GatherLogLocked();
    lock.unlock();
    Result<size_t> sent = has_parts ? write.channel->TrySend({write.parts.data(), write.count})
                                    : FlushHeld(*write.channel);
    if (!sent.ok()) {
      Lose(write.generation, sent.status());
      turn.unlock();
      return Drained::kBroken;
    }
    if (*sent == 0) {
      turn.unlock();
      return Drained::kBlocked;
    }
    lock.lock();
    if (write.generation == generation_) log_is_holding_ = write.channel->IsHolding();
    if (has_parts) AdvanceLogLocked(*sent);
  }
  turn.unlock();
  return Drained::kIdle;
}

// Writes all that the socket takes. A caller that finds the turn taken may leave: the holder sees
// what was appended before it gives the turn up.
LinkCore::Drained LinkCore::DrainLog() {
  Lock turn(log_writer_, std::try_to_lock);
  return turn.owns_lock() ? DrainLogAsWriter(turn) : Drained::kBusy;
}

void LinkCore::ReleaseTail() {
  bool released = false;
  while (tail_first_seq_ <= acked_seq_ && tail_first_seq_ < cursor_seq_) {
    std::unique_ptr<FrameBuffer> frame = tail_.PopFront();
    ++tail_first_seq_;
    tail_bytes_ -= FrameAccess::CapacityBytes(*frame);
    released = true;
    std::lock_guard pool(pool_mutex_);
    frames_.Give(std::move(frame));
  }
  if (released) room_cv_.notify_all();
}

void LinkCore::RequestBacklog() {
  std::lock_guard lock(mutex_);
  if (!backlog_) {
    backlog_ = true;
    PokeService();
  }
}

void LinkCore::SendControl() {
  {
    std::lock_guard lock(mutex_);
    control_wanted_ = true;
  }
  if (DrainLog() == Drained::kBlocked) RequestBacklog();
}

size_t LinkCore::TailBytes() {
  std::lock_guard lock(mutex_);
  return tail_bytes_;
}

}  // namespace farcall
