// SPDX-License-Identifier: Apache-2.0
// The link's state and threads. Threads: callers; one service thread (heartbeats, backlog, redial,
// grace, closing; asleep while the link is idle); per attached lane one reader and one writer, the
// writer asleep unless a socket is full.
//
// Locks, in the order they may be taken: order_ (senders of frames), log_writer_ or a lane's writer
// (whoever puts bytes on that socket; never held across a wait), mutex_ (all state, short). The
// pools' locks are leaves.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/link.h"
#include "transport/link/chunk_packing.h"
#include "transport/link/frame_pool.h"
#include "transport/link/ring.h"
#include "transport/spin.h"
#include "transport/sync.h"

namespace farcall {

// Chunks a sender may be ahead of the contiguous prefix its peer has acknowledged.
inline constexpr uint64_t kChunkWindow = 4096;

class LinkCore {
 public:
  LinkCore(LinkObserver& observer, const LinkOptions& options, Link::Reconnect reconnect);
  ~LinkCore();

  // log_out.cc
  std::unique_ptr<FrameBuffer> TakeBuffer(size_t capacity_bytes);
  Status SendFrame(std::unique_ptr<FrameBuffer>&& frame);
  size_t TailBytes();
  // log_in.cc
  Status Pump(Clock::time_point deadline, int wake_fd);
  int TakeDescriptor() { return reader_ == nullptr ? -1 : reader_->TakeDescriptor(); }
  // bulk_out.cc
  Status SendTransfer(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                      Link::Retain retain, std::function<void()> done);
  // bulk_in.cc
  Status WaitChunks(uint64_t seq, Clock::time_point deadline);
  // attach.cc
  void AttachLog(std::unique_ptr<Channel> channel, uint64_t peer_received_seq,
                 uint64_t peer_received_chunks);
  // `generation` of the log's connection that it was dialled for; 0: not known to this side.
  void AttachLane(uint32_t index, std::unique_ptr<Channel> channel, uint64_t generation);
  Status OpenLanes();
  void Abandon();
  bool CarriesDescriptors() const { return carries_descriptors_; }
  Status SendDescriptor(int descriptor);
  // liveness.cc
  void ExpectNews() {
    stirred_.store(true, std::memory_order_relaxed);
    if (is_idle_.load(std::memory_order_relaxed)) [[unlikely]]
      EndIdle();
  }
  // service.cc
  void Close(const Status& why);
  Status Closed();

  bool attached() const { return phase_ == Phase::kAttached; }
  uint64_t chunks_sent() const { return chunks_sent_; }
  uint64_t chunks_received() const { return chunk_prefix_; }
  uint64_t received_seq() const { return received_seq_; }
  Link::Counters counters() const;

 private:
  enum class Phase : uint8_t { kNew, kAttached, kDetached, kClosing, kClosed };
  enum class Drained : uint8_t { kIdle, kBusy, kBlocked, kBroken };
  using Lock = std::unique_lock<Mutex>;

  struct ChunkEntry {
    ChunkHeader header;
    const std::byte* data = nullptr;
    CopyBlock copy;
    std::function<void()> done;  // of a transfer's last piece
  };

  struct LaneDial;
  struct Lane {
    Lane(bool always_packs, uint32_t lanes) : packer(always_packs, lanes) {}
    uint32_t index = 0;
    Mutex writer;  // guards what follows
    ChunkHeader header;
    std::span<const std::byte> payload;  // as it crosses
    size_t sent_bytes = 0;               // of headers and payload
    PackedHeader packed;                 // where the header says so
    ChunkPacker packer;
    bool was_full = false;       // its socket, during this chunk
    bool has_followed = false;   // this chunk was there before the one before had left
    Clock::time_point began_at;  // of this chunk, or when the one before had left
    // Guarded by mutex_:
    std::shared_ptr<Channel> channel;
    uint64_t generation = 0;     // of the channel
    uint64_t epoch = 0;          // of the link when it was attached
    uint64_t reading_epoch = 0;  // 0: the reader holds no channel
    uint64_t writing_seq = 0;    // chunk partly written; pins it and all behind it
    bool is_holding = false;     // the channel took bytes that its socket has not
    std::atomic<int> fd = -1;    // for Abandon, which takes no lock
    WorkerThread reader_thread, writer_thread;
  };

  // What is written next, and to which connection.
  struct LogWrite {
    std::shared_ptr<Channel> channel;
    uint64_t generation = 0;  // of the channel
    size_t count = 0;
    std::array<std::span<const std::byte>, 16> parts;
  };

  // log_out.cc
  Status WaitTailRoom(size_t bytes);
  Status AppendFrame(std::unique_ptr<FrameBuffer>&& frame, bool closing, uint64_t* seq);
  void StampControl();
  bool GatherLogLocked();
  void AdvanceLogLocked(size_t bytes);
  Drained DrainLog();
  Drained DrainLogAsWriter(Lock& turn);
  bool LogPending() const {
    return log_ != nullptr && (cursor_seq_ < next_seq_ || control_wanted_ ||
                               control_sent_bytes_ < sizeof(control_) || log_is_holding_);
  }
  void ReleaseTail();
  void RequestBacklog();
  void SendControl();
  // log_in.cc
  bool HasReader() const { return reader_ != nullptr && reader_generation_ == generation_; }
  bool RefreshReader();
  bool WaitAttached(Clock::time_point deadline, int wake_fd);
  Result<size_t> ReceiveSpinning(Clock::time_point deadline, int wake_fd, SpinPolicy::Ns budget);
  std::span<std::byte> ReceiveRoom();
  Status DeliverBuffered(bool* any);
  bool IsNews(const FrameHeader& header) const {
    return header.ack > acks_seen_ || header.chunk_ack > chunk_acks_seen_;
  }
  Status DeliverFrame(const FrameHeader& header, std::span<std::byte> frame);
  Status RefuseFrame(const FrameHeader& header, uint64_t expected) const;
  Status HandleAcks(const FrameHeader& header);
  Status RefuseAcks(const FrameHeader& header) const;
  void HandleGoodbye(std::span<const std::byte> body);
  void AcknowledgeIfDue();
  // bulk_out.cc
  Status QueueCopied(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes);
  Status QueueInPlace(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                      std::function<void()> done, uint64_t* last_seq);
  void PushChunk(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                 CopyBlock copy, std::function<void()> done);
  bool ChunkPullable() const;
  bool LaneIsBusy(const Lane& lane) const;
  void DrainLanes();
  Drained DrainLane(Lane& lane, bool wait_turn);
  Drained DrainLaneAsWriter(Lane& lane);
  enum class Next : uint8_t { kNothing, kFlush, kBegin, kContinue };
  Next NextOf(Lane& lane, std::shared_ptr<Channel>* channel, uint64_t* generation);
  void BeginChunk(Lane& lane);
  static Result<size_t> SendPart(const Lane& lane, Channel& channel);
  void EndChunk(Lane& lane, const Channel& channel, uint64_t generation);
  void WriteLane(uint32_t index);
  void ReleaseChunks();
  void RunDone();
  // bulk_in.cc
  void ReadLane(uint32_t index);
  Status ReceiveChunks(Channel& channel, ChunkUnpacker& unpacker);
  Status ReceiveChunk(Channel& channel, const ChunkHeader& header, size_t packed_bytes,
                      ChunkUnpacker& unpacker);
  Status ReceiveFully(Channel& channel, std::span<std::byte> into, bool at_boundary);
  Status ClaimChunk(const ChunkHeader& header, bool* duplicate);
  void FinishChunk(uint64_t seq, bool received);
  void AcknowledgeChunks();
  bool OlderReader(uint64_t epoch) const;
  // attach.cc
  void Lose(uint64_t generation, const Status& why);
  void Break(uint64_t generation, const Status& why);
  void BreakLane(Lane& lane, uint64_t generation, const Status& why);
  void BreakLocked(const Status& why);
  bool DialLanes(Lock& lock);
  uint64_t Progress() const;
  void WakePump();
  // liveness.cc
  bool HasUnacknowledgedLocked() const;
  bool FallIdleLocked(Clock::time_point now);
  void EndIdle();
  void EndIdleLocked();
  Clock::time_point TendLiveness(Lock& lock);
  Clock::time_point CheckSilence(Clock::time_point now);
  bool WaitReadable(Clock::time_point deadline, int wake_fd);
  // service.cc
  void Serve();
  void ReportChanges(Lock& lock);
  Clock::time_point TendAttached(Lock& lock);
  Clock::time_point TendDetached(Lock& lock);
  void Redial(Lock& lock);
  void Finish(Lock& lock);
  void Flush(Lock& lock);
  void DropAll();
  void RequestClose(const Status& why, bool tell_peer);
  void RequestCloseLocked(const Status& why, bool tell_peer);
  void PokeService();
  bool OnOwnThread() const;
  bool OnPumpThread() const { return pump_thread_ == reinterpret_cast<uintptr_t>(pthread_self()); }

  LinkObserver& observer_;
  const LinkOptions options_;
  const Link::Reconnect reconnect_;
  const uint64_t ack_frames_;  // send an acknowledgement alone after so many frames,
  const uint64_t ack_bytes_;   // or bytes, without one
  const int pump_wake_fd_;     // readable: a Pump that waits for a connection looks again

  Mutex order_;
  Mutex log_writer_;
  LogWrite log_write_;  // under log_writer_
  mutable Mutex mutex_;
  CondVar service_cv_, room_cv_, lane_cv_, received_cv_, closed_cv_;

  // ---- guarded by mutex_
  std::atomic<Phase> phase_ = Phase::kNew;  // written under mutex_
  Status why_;
  bool tell_peer_ = false;
  std::shared_ptr<Channel> log_;
  uint64_t epoch_ = 1;  // +1 when an attached link breaks
  uint64_t reported_epoch_ = 1;
  bool reported_detached_ = false;
  Status break_why_;
  Clock::time_point detached_since_, attached_since_, next_dial_;
  uint64_t attached_progress_ = 0;
  uint32_t backoff_ms_ = 0;
  uint64_t service_ticket_ = 0;
  bool backlog_ = false;
  bool lanes_wanted_ = false, lanes_open_ = false, lanes_were_open_ = false, stop_lanes_ = false;

  Ring<std::unique_ptr<FrameBuffer>> tail_;
  std::atomic<size_t> tail_bytes_ = 0;  // also needs order_ to grow
  uint64_t tail_first_seq_ = 1;         // of tail_[0]
  uint64_t next_seq_ = 1;               // also needs order_ to change
  uint64_t cursor_seq_ = 1;             // first frame not wholly written to this connection
  size_t cursor_bytes_ = 0;             // of it that are
  uint64_t offered_seq_ = 0;  // highest ever given to a socket: what a peer may acknowledge
  uint64_t acked_seq_ = 0;
  bool log_is_holding_ = false;  // bytes that log_ took and its socket has not
  bool control_wanted_ = false, ask_wanted_ = false;
  FrameHeader control_;
  size_t control_sent_bytes_ = sizeof(FrameHeader);

  Ring<ChunkEntry> chunks_;
  Ring<std::function<void()>> done_;
  size_t copied_bytes_ = 0;
  uint64_t chunk_next_ = 1, chunk_cursor_ = 1, chunk_offered_ = 0, chunk_acked_ = 0,
           chunk_released_ = 0;
  std::bitset<kChunkWindow> chunk_claimed_, chunk_received_;
  uint64_t lane_generation_ = 0;

  bool is_expecting_ = false;  // something of the peer is awaited, or was a short while ago
  Clock::time_point stirred_at_, expecting_since_;
  std::atomic<bool> is_idle_ = false;  // neither side sends heartbeats; the service thread sleeps

  // ---- read without it
  std::atomic<bool> stirred_ = false;  // a frame of the log has come or gone, or somebody looks
  std::atomic<bool> awaits_answer_ = false;  // a caller waits in Pump
  std::atomic<bool> reader_waits_ = false;   // a thread waits in Pump for whatever comes
  std::atomic<uint64_t> generation_ = 1;     // +1 at each attach and break of the log
  std::atomic<uint64_t> heard_generation_ = 0;
  std::atomic<uint64_t> received_seq_ = 0, chunk_prefix_ = 0, chunks_sent_ = 0;
  std::atomic<uint64_t> ack_stamped_ = 0, chunk_ack_stamped_ = 0, chunk_bytes_unacked_ = 0;
  std::atomic<uint64_t> acks_seen_ = 0, chunk_acks_seen_ = 0;
  std::atomic<bool> done_waiting_ = false;
  std::atomic<Clock::time_point> last_sent_{}, last_heard_{};
  std::atomic<uintptr_t> pump_thread_ = 0;
  std::atomic<uint32_t> next_lane_ = 0;
  std::atomic<int> log_fd_ = -1;
  std::atomic<bool> sums_frames_;  // the log's connection does not check bytes by itself
  std::atomic<bool> carries_descriptors_ = false;
  std::atomic<uint64_t> frames_out_ = 0, frames_in_ = 0, bytes_out_ = 0, bytes_in_ = 0,
                        chunk_bytes_out_ = 0, chunk_bytes_in_ = 0, reconnects_ = 0;

  // ---- the pumping thread's
  std::shared_ptr<Channel> reader_;
  uint64_t reader_generation_ = 0;
  std::unique_ptr<std::byte[]> received_;
  size_t received_bytes_ = 0;
  uint64_t bytes_since_ack_ = 0, ack_stamp_seen_ = 0;
  bool is_asked_ = false;  // by a frame that has just come
  uint64_t peer_chunks_sent_ = 0;
  SpinPolicy answer_spin_, idle_spin_;  // of Pump without and with a `wake_fd`

  Mutex pool_mutex_;
  FramePool frames_;
  CopyPool copies_;

  std::vector<std::unique_ptr<Lane>> lanes_;
  WorkerThread service_;
};

}  // namespace farcall
