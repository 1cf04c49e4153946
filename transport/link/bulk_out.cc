// SPDX-License-Identifier: Apache-2.0
// Outgoing chunks: one queue in seq order, from which each lane pulls its next chunk when it has
// written the last. Entries stay until the peer acknowledges the prefix they are in.
#include <algorithm>
#include <array>
#include <cstring>

#include "transport/link/link_core.h"

namespace farcall {
namespace {

constexpr auto kWaitSlice = std::chrono::milliseconds(100);

}  // namespace

Status LinkCore::SendTransfer(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                              Link::Retain retain, std::function<void()> done) {
  if (lanes_.empty()) return {Code::kUnsupported, "link: this session has no bulk lanes"};
  if (retain == Link::Retain::kBorrowed && OnPumpThread()) {
    return {Code::kInvalid,
            "link: a borrowed transfer waits for the thread that sends it; copy or own the bytes"};
  }
  if (bytes.empty()) {
    FARCALL_TRY(Closed());
    if (done) done();
    return {};
  }
  if (retain == Link::Retain::kCopied) return QueueCopied(transfer, offset, bytes);
  uint64_t last_seq = 0;
  FARCALL_TRY(QueueInPlace(transfer, offset, bytes, std::move(done), &last_seq));
  DrainLanes();
  if (retain == Link::Retain::kOwned) return {};
  Lock lock(mutex_);
  while (chunk_released_ < last_seq) room_cv_.wait(lock);
  return phase_ < Phase::kClosing || chunk_acked_ >= last_seq ? Status() : why_;
}

Status LinkCore::QueueCopied(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kMaxChunkBytes));
    CopyBlock copy;
    {
      std::lock_guard pool(pool_mutex_);
      copy = copies_.Take(piece.size());
    }
    if (copy.bytes == nullptr) copy.bytes.reset(new std::byte[copy.capacity_bytes]);
    std::memcpy(copy.bytes.get(), piece.data(), piece.size());
    {
      Lock lock(mutex_);
      while (phase_ < Phase::kClosing && copied_bytes_ != 0 && !OnPumpThread() &&
             copied_bytes_ + copy.capacity_bytes > options_.max_chunk_tail_bytes)
        room_cv_.wait(lock);
      if (phase_ >= Phase::kClosing) return why_;
      std::span<const std::byte> kept(copy.bytes.get(), piece.size());
      PushChunk(transfer, offset, kept, std::move(copy), nullptr);
    }
    DrainLanes();
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

// All pieces or none: whoever lends the bytes must know whether anything still reads them.
Status LinkCore::QueueInPlace(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                              std::function<void()> done, uint64_t* last_seq) {
  std::lock_guard lock(mutex_);
  if (phase_ >= Phase::kClosing) return why_;
  while (!bytes.empty()) {
    std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kMaxChunkBytes));
    bytes = bytes.subspan(piece.size());
    // The last piece has it.
    // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    PushChunk(transfer, offset, piece, {}, bytes.empty() ? std::move(done) : nullptr);
    offset += piece.size();
  }
  *last_seq = chunk_next_ - 1;
  return {};
}

void LinkCore::PushChunk(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                         CopyBlock copy, std::function<void()> done) {
  ChunkEntry entry;
  entry.header.bytes = static_cast<uint32_t>(bytes.size());
  entry.header.seq = chunk_next_++;
  entry.header.transfer = transfer;
  entry.header.offset = offset;
  entry.data = bytes.data();
  copied_bytes_ += copy.capacity_bytes;
  entry.copy = std::move(copy);
  entry.done = std::move(done);
  chunks_.PushBack(std::move(entry));
  chunks_sent_ = chunk_next_ - 1;
  EndIdleLocked();
}

bool LinkCore::ChunkPullable() const {
  return chunk_cursor_ < chunk_next_ && chunk_cursor_ <= chunk_acked_ + kChunkWindow;
}

bool LinkCore::LaneIsBusy(const Lane& lane) const {
  return lane.writing_seq != 0 || ChunkPullable() || lane.is_holding;
}

// From the caller's thread, as far as the sockets take it; the lanes' writers do the rest.
void LinkCore::DrainLanes() {
  uint32_t first = next_lane_++;
  bool blocked = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    blocked |=
        DrainLane(*lanes_[(first + i) % lanes_.size()], /*wait_turn=*/false) == Drained::kBlocked;
  }
  std::lock_guard lock(mutex_);
  if (blocked || ChunkPullable()) lane_cv_.notify_all();
}

LinkCore::Drained LinkCore::DrainLane(Lane& lane, bool wait_turn) {
  if (wait_turn)
    lane.writer.lock();
  else if (!lane.writer.try_lock())
    return Drained::kBusy;
  Drained result = DrainLaneAsWriter(lane);
  lane.writer.unlock();
  RunDone();
  return result;
}

LinkCore::Next LinkCore::NextOf(Lane& lane, std::shared_ptr<Channel>* channel,
                                uint64_t* generation) {
  std::lock_guard lock(mutex_);
  *channel = lane.channel;
  *generation = lane.generation;
  if (lane.channel == nullptr || !LaneIsBusy(lane)) {
    lane.has_followed = false;
    return Next::kNothing;
  }
  if (lane.writing_seq != 0) return Next::kContinue;
  if (!ChunkPullable()) return Next::kFlush;
  lane.writing_seq = chunk_cursor_++;
  chunk_offered_ = std::max(chunk_offered_, lane.writing_seq);
  const ChunkEntry& entry = chunks_[lane.writing_seq - chunks_.front().header.seq];
  lane.header = entry.header;
  lane.payload = {entry.data, entry.header.bytes};
  lane.sent_bytes = 0;
  return Next::kBegin;
}

// The chunk stays where it is: it is pinned by writing_seq.
void LinkCore::BeginChunk(Lane& lane) {
  if (options_.packing == LinkOptions::Packing::kOff) return;
  lane.was_full = false;
  if (!lane.has_followed) lane.began_at = Clock::now();
  const std::span<const std::byte> packed = lane.packer.Pack(lane.payload);
  if (!packed.empty()) {
    lane.header.magic = kPackedMagic;
    lane.packed.bytes = static_cast<uint32_t>(packed.size());
    lane.payload = packed;
  }
}

// What is left of the chunk, as much of it as the channel takes.
Result<size_t> LinkCore::SendPart(const Lane& lane, Channel& channel) {
  std::array<std::span<const std::byte>, 3> parts = {std::as_bytes(std::span(&lane.header, 1))};
  size_t count = 1;
  if (lane.header.magic == kPackedMagic) parts[count++] = std::as_bytes(std::span(&lane.packed, 1));
  parts[count++] = lane.payload;
  size_t first = 0, sent_bytes = lane.sent_bytes;
  while (sent_bytes >= parts[first].size()) sent_bytes -= parts[first++].size();
  parts[first] = parts[first].subspan(sent_bytes);
  return channel.TrySend(std::span(parts).first(count).subspan(first));
}

void LinkCore::EndChunk(Lane& lane, const Channel& channel, uint64_t generation) {
  if (options_.packing != LinkOptions::Packing::kOff) {
    const Clock::time_point now = Clock::now();
    lane.packer.Sent(lane.sent_bytes, now - lane.began_at, lane.was_full);
    lane.began_at = now;
    lane.has_followed = true;
  }
  std::lock_guard lock(mutex_);
  lane.writing_seq = 0;
  if (lane.generation == generation) lane.is_holding = channel.IsHolding();
  ReleaseChunks();
}

LinkCore::Drained LinkCore::DrainLaneAsWriter(Lane& lane) {
  for (;;) {
    std::shared_ptr<Channel> channel;
    uint64_t generation = 0;
    switch (NextOf(lane, &channel, &generation)) {
      case Next::kNothing:
        return Drained::kIdle;
      case Next::kFlush: {
        Result<bool> flushed = channel->Flush();
        if (!flushed.ok()) {
          BreakLane(lane, generation, flushed.status());
          return Drained::kBroken;
        }
        if (!*flushed) return Drained::kBlocked;
        std::lock_guard lock(mutex_);
        lane.is_holding = lane.is_holding && lane.generation != generation;
        continue;
      }
      case Next::kBegin:
        BeginChunk(lane);
        break;
      case Next::kContinue:
        break;
    }
    Result<size_t> sent = SendPart(lane, *channel);
    if (!sent.ok()) {
      BreakLane(lane, generation, sent.status());
      return Drained::kBroken;
    }
    if (*sent == 0) {
      lane.was_full = true;
      return Drained::kBlocked;
    }
    chunk_bytes_out_ += *sent;
    lane.sent_bytes += *sent;
    const size_t packed_header = lane.header.magic == kPackedMagic ? sizeof(PackedHeader) : 0;
    if (lane.sent_bytes == sizeof(ChunkHeader) + packed_header + lane.payload.size())
      EndChunk(lane, *channel, generation);
  }
}

// Thread body: takes over when a socket was full.
void LinkCore::WriteLane(uint32_t index) {
  Lane& lane = *lanes_[index];
  for (;;) {
    std::shared_ptr<Channel> channel;
    {
      Lock lock(mutex_);
      while (!stop_lanes_ && (lane.channel == nullptr || !LaneIsBusy(lane))) lane_cv_.wait(lock);
      if (stop_lanes_) return;
      channel = lane.channel;
    }
    if (DrainLane(lane, /*wait_turn=*/true) == Drained::kBlocked)
      channel->WaitWritable(Clock::now() + kWaitSlice);
  }
}

// Lets go of what is acknowledged, but of nothing that a lane is still writing, even if the peer
// lies about it.
void LinkCore::ReleaseChunks() {
  uint64_t limit = std::min(chunk_acked_, chunk_cursor_ - 1);
  for (const auto& lane : lanes_)
    if (lane->writing_seq != 0) limit = std::min(limit, lane->writing_seq - 1);
  if (chunk_released_ >= limit) return;
  while (chunk_released_ < limit) {
    ChunkEntry entry = chunks_.PopFront();
    chunk_released_ = entry.header.seq;
    copied_bytes_ -= entry.copy.capacity_bytes;
    if (entry.done) {
      done_.PushBack(std::move(entry.done));
      done_waiting_ = true;
    }
    std::lock_guard pool(pool_mutex_);
    copies_.Give(std::move(entry.copy));
  }
  room_cv_.notify_all();
  if (ChunkPullable()) lane_cv_.notify_all();
}

void LinkCore::RunDone() {
  while (done_waiting_) {
    std::function<void()> done;
    {
      std::lock_guard lock(mutex_);
      if (!done_.empty()) done = done_.PopFront();
      done_waiting_ = !done_.empty();
    }
    if (done) done();
  }
}

}  // namespace farcall
