// SPDX-License-Identifier: Apache-2.0
// Incoming chunks: each lane's reader lands payloads straight in their destination. A prefix
// counter and one window of bits tell which chunks are here, whatever order the lanes deliver in.
#include <algorithm>

#include "transport/link/frame_check.h"
#include "transport/link/link_core.h"

namespace farcall {
namespace {

constexpr uint64_t kAckChunkBytes = 4u
                                    << 20;  // without an acknowledgement, while more keeps coming

}  // namespace

// Thread body. A lane's new connection waits until no lane reads a connection from before the link
// broke: the chunk such a reader still lands would otherwise be landed twice at once.
void LinkCore::ReadLane(uint32_t index) {
  Lane& lane = *lanes_[index];
  ChunkUnpacker unpacker;
  uint64_t done_generation = 0;
  Lock lock(mutex_);
  for (;;) {
    while (!stop_lanes_ && (lane.channel == nullptr || lane.generation == done_generation ||
                            OlderReader(lane.epoch)))
      lane_cv_.wait(lock);
    if (stop_lanes_) return;
    std::shared_ptr<Channel> channel = lane.channel;
    uint64_t generation = lane.generation;
    lane.reading_epoch = lane.epoch;
    lock.unlock();
    Status why = ReceiveChunks(*channel, unpacker);
    if (why.code() == Code::kDisconnected)
      BreakLane(lane, generation, why);
    else
      RequestClose(why, /*tell_peer=*/true);
    lock.lock();
    lane.reading_epoch = 0;
    done_generation = generation;
    lane_cv_.notify_all();
  }
}

bool LinkCore::OlderReader(uint64_t epoch) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [epoch](const auto& lane) {
    return lane->reading_epoch != 0 && lane->reading_epoch < epoch;
  });
}

// Until the connection ends (kDisconnected) or the peer lies (kMalformed).
Status LinkCore::ReceiveChunks(Channel& channel, ChunkUnpacker& unpacker) {
  const bool may_be_packed = options_.packing != LinkOptions::Packing::kOff;
  for (;;) {
    ChunkHeader header;
    FARCALL_TRY(
        ReceiveFully(channel, std::as_writable_bytes(std::span(&header, 1)), /*at_boundary=*/true));
    FARCALL_TRY(CheckChunkHeader(header, may_be_packed));
    PackedHeader packed;
    if (header.magic == kPackedMagic) {
      FARCALL_TRY(ReceiveFully(channel, std::as_writable_bytes(std::span(&packed, 1)),
                               /*at_boundary=*/false));
      FARCALL_TRY(CheckPackedHeader(packed, header));
    }
    bool duplicate = false;
    FARCALL_TRY(ClaimChunk(header, &duplicate));
    if (!duplicate) {
      Status status = ReceiveChunk(channel, header, packed.bytes, unpacker);
      FinishChunk(header.seq, status.ok());
      FARCALL_TRY(status);
      continue;
    }
    std::byte scratch[16384];
    for (size_t left = packed.bytes != 0 ? packed.bytes : header.bytes; left != 0;) {
      size_t bytes = std::min(left, sizeof(scratch));
      FARCALL_TRY(ReceiveFully(channel, {scratch, bytes}, /*at_boundary=*/false));
      left -= bytes;
    }
  }
}

//   packed_bytes  0: as they are
Status LinkCore::ReceiveChunk(Channel& channel, const ChunkHeader& header, size_t packed_bytes,
                              ChunkUnpacker& unpacker) {
  std::span<std::byte> into = observer_.ChunkDestination(header);
  if (into.size() != header.bytes) {
    return {Code::kMalformed, "chunk: transfer " + std::to_string(header.transfer) +
                                  " has no room for " + std::to_string(header.bytes) +
                                  " bytes at offset " + std::to_string(header.offset)};
  }
  if (packed_bytes == 0) {
    FARCALL_TRY(ReceiveFully(channel, into, /*at_boundary=*/false));
  } else {
    FARCALL_TRY(ReceiveFully(channel, unpacker.Room(packed_bytes), /*at_boundary=*/false));
    FARCALL_TRY(unpacker.Unpack(packed_bytes, into));
  }
  observer_.OnChunk(header);
  chunk_bytes_in_ += header.bytes;
  chunk_bytes_unacked_ += header.bytes;
  return {};
}

// `at_boundary`: between chunks, where a pause means that the sender may be waiting for our
// acknowledgement.
Status LinkCore::ReceiveFully(Channel& channel, std::span<std::byte> into, bool at_boundary) {
  while (!into.empty()) {
    Result<size_t> got = channel.TryReceive(into);
    if (!got.ok()) return got.status();
    into = into.subspan(*got);
    if (*got != 0) {
      at_boundary = false;
      continue;
    }
    if (at_boundary) AcknowledgeChunks();
    channel.WaitReadable(Clock::time_point::max());
  }
  return {};
}

Status LinkCore::ClaimChunk(const ChunkHeader& header, bool* duplicate) {
  std::lock_guard lock(mutex_);
  uint64_t prefix = chunk_prefix_;
  size_t slot = header.seq % kChunkWindow;
  *duplicate = header.seq <= prefix;
  if (*duplicate) return {};
  if (header.seq - prefix > kChunkWindow) {
    return {Code::kMalformed, "chunk: seq " + std::to_string(header.seq) + ", at most " +
                                  std::to_string(prefix + kChunkWindow) + " may be sent now"};
  }
  *duplicate = chunk_received_[slot];
  if (*duplicate) return {};
  if (chunk_claimed_[slot]) {
    return {Code::kMalformed,
            "chunk: seq " + std::to_string(header.seq) + " comes on two lanes at once"};
  }
  chunk_claimed_[slot] = true;
  return {};
}

void LinkCore::FinishChunk(uint64_t seq, bool received) {
  bool acknowledge = false;
  {
    std::lock_guard lock(mutex_);
    chunk_claimed_[seq % kChunkWindow] = false;
    if (!received) return;
    chunk_received_[seq % kChunkWindow] = true;
    uint64_t prefix = chunk_prefix_;
    while (chunk_received_[(prefix + 1) % kChunkWindow]) {
      ++prefix;
      chunk_received_[prefix % kChunkWindow] = false;
    }
    if (prefix != chunk_prefix_) {
      chunk_prefix_ = prefix;
      received_cv_.notify_all();
    }
    acknowledge = chunk_bytes_unacked_ >= kAckChunkBytes;
  }
  if (acknowledge) AcknowledgeChunks();
}

void LinkCore::AcknowledgeChunks() {
  if (chunk_ack_stamped_ < chunk_prefix_) SendControl();
}

Status LinkCore::WaitChunks(uint64_t seq, Clock::time_point deadline) {
  Lock lock(mutex_);
  while (chunk_prefix_ < seq) {
    if (phase_ >= Phase::kClosing) return why_;
    if (Clock::now() >= deadline) {
      return {Code::kTimeout, "link: " + std::to_string(chunk_prefix_) +
                                  " chunks are here, waited for " + std::to_string(seq)};
    }
    received_cv_.wait_until(lock, deadline);
  }
  return {};
}

}  // namespace farcall
