// SPDX-License-Identifier: Apache-2.0
// One end of a link, fed by a hostile peer over the log and two lanes. Input: {u8 mode}, then steps
// {u8 kind, u8 how, u16 bytes, body}. Whatever comes: frames are delivered once and in order,
// chunks land where there is room, and the link ends at most once, with its reason.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "proto/crc32c.h"
#include "proto/records.h"
#include "tests/fuzz/scripted_channel.h"
#include "transport/link.h"
#include "transport/link/chunk_packing.h"

namespace {

using farcall::ChunkHeader;
using farcall::Clock;
using farcall::Code;
using farcall::FrameHeader;
using farcall::Link;
using farcall::LinkRole;
using farcall::RecordHeader;
using farcall::Result;
using farcall::Status;
using farcall::fuzz::Script;
using farcall::fuzz::ScriptedChannel;

constexpr uint32_t kLanes = 2;
constexpr size_t kMaxSteps = 200;
enum Mode : uint8_t { kClientEnd = 1, kLanesOpen = 2, kSlowSocket = 4, kPacks = 8, kIdles = 16 };
enum Step : uint8_t {
  kLogBytes,   // as they are
  kFrame,      // {i8 seq, i8 ack, i8 chunk_ack, i8 chunks_sent, i8 records, u8 flags, u8 sum, u8},
               // each what it is off by, then the records
  kLaneBytes,  // on lane `how`
  kChunk,      // {i8 seq, u8, u16 transfer, u32 offset}, payload; on lane `how`
  kSendFrame,  // of ours, `how` records
  kSendTransfer,
  kReattach,  // {i8 frames, i8 chunks} off what the peer has
  kCut,       // the peer closes the log
  // {i8 seq, u8 reserved, u16 transfer, u32 bytes of the chunk}, the frame of Zstandard: as it is,
  // or, by an odd `how`, made of the payload
  kPackedChunk,
  kSteps
};

class Observer final : public farcall::LinkObserver {
 public:
  Status OnFrame(const farcall::FrameView& frame) override {
    if (closed_ || frame.header.seq != ++frames_ ||
        !farcall::CheckRecords(frame.records, frame.header.records).ok())
      std::abort();
    return {};
  }
  // Transfers of odd number have no room.
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override {
    if (header.transfer % 2 != 0) return {};
    std::lock_guard lock(mutex_);
    std::vector<std::byte>& room = rooms_[header.seq];
    room.resize(header.bytes);
    return room;
  }
  void OnChunk(const ChunkHeader& header) override {
    std::lock_guard lock(mutex_);
    if (rooms_.erase(header.seq) == 0) std::abort();  // landed twice, or nowhere
  }
  void OnDetached(const Status&) override {}
  void OnReattached() override {}
  void OnClosed(const Status& why) override {
    if (closed_.exchange(true) || why.ok()) std::abort();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::vector<std::byte>> rooms_;  // by chunk
  uint64_t frames_ = 0;
  std::atomic<bool> closed_{false};
};

int8_t Signed(std::span<const uint8_t> body, size_t at) {
  return at < body.size() ? static_cast<int8_t>(body[at]) : 0;
}

class Peer {
 public:
  explicit Peer(uint8_t mode) : mode_(mode) {
    farcall::LinkOptions options;
    options.is_client = (mode & kClientEnd) != 0;
    options.lanes = kLanes;
    options.grace_ms = 2;
    options.spin_us = 0;
    options.idle_after_ms = (mode & kIdles) != 0 ? 1 : 0;
    if ((mode & kPacks) != 0) options.packing = farcall::LinkOptions::Packing::kAlways;
    options.max_tail_bytes = 64u << 10;
    options.max_chunk_tail_bytes = 256u << 10;
    link_ = std::make_unique<Link>(observer_, options);
    Attach(0, 0);
  }
  ~Peer() { link_.reset(); }

  bool Take(uint8_t kind, uint8_t how, std::span<const uint8_t> body) {
    switch (kind % kSteps) {
      case kLogBytes:
        log_->Feed(std::as_bytes(body));
        break;
      case kFrame:
        FeedFrame(body);
        break;
      case kLaneBytes:
        lanes_[how % kLanes]->Feed(std::as_bytes(body));
        break;
      case kChunk:
        FeedChunk(*lanes_[how % kLanes], body);
        break;
      case kPackedChunk:
        FeedPackedChunk(*lanes_[how / 2 % kLanes], (how & 1) != 0, body);
        break;
      case kSendFrame:
        Send(how % 4 + 1u, body);
        break;
      case kSendTransfer:
        SendTransfer(how, body.size());
        break;
      case kReattach:
        Attach(Signed(body, 0), Signed(body, 1));
        break;
      default:
        log_->CutByPeer();
        break;
    }
    for (auto& lane : lanes_) lane->Settle();
    Status status = link_->Pump(Clock::now());
    return status.ok() || status.code() == Code::kTimeout;
  }

 private:
  void Attach(int frames_off, int chunks_off) {
    frames_heard_ = std::max<uint64_t>(frames_heard_, log_ == nullptr ? 0 : log_->frames_sent());
    log_ = std::make_shared<Script>((mode_ & kSlowSocket) != 0);
    link_->AttachLog(std::make_unique<ScriptedChannel>(log_),
                     frames_heard_ + static_cast<uint64_t>(frames_off),
                     ChunksHeard() + static_cast<uint64_t>(chunks_off));
    for (uint32_t i = 0; i < kLanes; ++i) {
      lane_chunks_ = ChunksHeard();
      lanes_[i] = std::make_shared<Script>(false);
      if ((mode_ & kLanesOpen) != 0)
        link_->AttachLane(i, std::make_unique<ScriptedChannel>(lanes_[i]));
    }
  }

  uint64_t ChunksHeard() const {
    uint64_t most = lane_chunks_;
    for (const auto& lane : lanes_)
      most = std::max(most, lane == nullptr ? 0 : lane->chunks_sent());
    return most;
  }

  void FeedFrame(std::span<const uint8_t> body) {
    auto records = std::as_bytes(body.subspan(std::min<size_t>(8, body.size())));
    records = records.first(records.size() / 8 * 8);
    uint32_t count = 0;
    farcall::RecordCursor cursor(records);
    for (farcall::RecordView record; cursor.Next(record);) ++count;
    FrameHeader header;
    header.bytes = static_cast<uint32_t>(sizeof(header) + records.size());
    header.seq = records.empty() ? 0 : ++seq_ + static_cast<uint64_t>(Signed(body, 0));
    header.ack =
        std::max(frames_heard_, log_->frames_sent()) + static_cast<uint64_t>(Signed(body, 1));
    header.chunk_ack = ChunksHeard() + static_cast<uint64_t>(Signed(body, 2));
    header.chunks_sent = chunk_seq_ + static_cast<uint64_t>(Signed(body, 3));
    header.records = static_cast<uint16_t>(count + static_cast<uint32_t>(Signed(body, 4)));
    header.flags = static_cast<uint8_t>(Signed(body, 5));
    std::vector<std::byte> frame(header.bytes);
    std::memcpy(frame.data(), &header, sizeof(header));
    std::copy(records.begin(), records.end(), frame.begin() + sizeof(header));
    auto sum = static_cast<uint8_t>(Signed(body, 6));
    header.crc32c = sum == 0 ? 0 : farcall::Crc32c(0, frame) + (sum - 1u);
    std::memcpy(frame.data(), &header, sizeof(header));
    log_->Feed(frame);
  }

  void FeedChunk(Script& lane, std::span<const uint8_t> body) {
    if (body.size() < 8) return;
    ChunkHeader header;
    uint16_t transfer;
    uint32_t offset;
    std::memcpy(&transfer, body.data() + 2, sizeof(transfer));
    std::memcpy(&offset, body.data() + 4, sizeof(offset));
    header.seq = ++chunk_seq_ + static_cast<uint64_t>(Signed(body, 0));
    header.transfer = transfer;
    header.offset = offset;
    header.bytes = static_cast<uint32_t>(body.size() - 8 + body[1]);
    lane.Feed(std::as_bytes(std::span(&header, 1)));
    lane.Feed(std::as_bytes(body.subspan(8)));
  }

  void FeedPackedChunk(Script& lane, bool packs, std::span<const uint8_t> body) {
    if (body.size() < 8) return;
    uint16_t transfer;
    ChunkHeader header;
    header.magic = farcall::kPackedMagic;
    std::memcpy(&transfer, body.data() + 2, sizeof(transfer));
    std::memcpy(&header.bytes, body.data() + 4, sizeof(header.bytes));
    header.seq = ++chunk_seq_ + static_cast<uint64_t>(Signed(body, 0));
    header.transfer = transfer;
    std::span<const std::byte> frame = std::as_bytes(body.subspan(8));
    farcall::ChunkPacker packer(/*always=*/true);
    if (packs && !frame.empty()) frame = packer.Pack(frame);
    const farcall::PackedHeader packed{static_cast<uint32_t>(frame.size()), body[1]};
    lane.Feed(std::as_bytes(std::span(&header, 1)));
    lane.Feed(std::as_bytes(std::span(&packed, 1)));
    lane.Feed(frame);
  }

  void Send(uint32_t records, std::span<const uint8_t> body) {
    std::unique_ptr<farcall::FrameBuffer> frame =
        link_->TakeBuffer(records * (sizeof(RecordHeader) + body.size() + 8));
    RecordHeader header;
    size_t padded = (body.size() + 7) / 8 * 8;
    header.bytes = static_cast<uint32_t>(sizeof(header) + padded);
    for (uint32_t i = 0; i < records; ++i) {
      std::memset(frame->room().data(), 0, header.bytes);
      std::memcpy(frame->room().data(), &header, sizeof(header));
      frame->Commit(header.bytes);
    }
    // A client may wait here for what only this thread would feed: it sends only while it need not.
    if ((mode_ & kClientEnd) == 0 || link_->tail_bytes() < (16u << 10))
      (void)link_->SendFrame(std::move(frame));
  }

  void SendTransfer(uint8_t how, size_t bytes) {
    static const std::vector<std::byte> payload(4u << 20);
    size_t length = std::min(payload.size(), (bytes + 1) * (how + 1u));
    (void)link_->SendTransfer(++transfer_, 0, {payload.data(), length}, Link::Retain::kOwned,
                              [] {});
  }

  const uint8_t mode_;
  Observer observer_;
  std::unique_ptr<Link> link_;
  std::shared_ptr<Script> log_;
  std::array<std::shared_ptr<Script>, kLanes> lanes_;
  uint64_t seq_ = 0, chunk_seq_ = 0, frames_heard_ = 0, lane_chunks_ = 0, transfer_ = 0;
};

}  // namespace

extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=32:malloc_context_size=8:use_sigaltstack=0:"
         "allocator_release_to_os_interval_ms=-1";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // A sanitizer pays for each thread's stack, and each link has threads.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512u << 10);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Peer peer(data[0]);
  std::span<const uint8_t> left(data + 1, size - 1);
  for (size_t steps = 0; left.size() >= 4 && steps < kMaxSteps; ++steps) {
    uint16_t bytes;
    std::memcpy(&bytes, left.data() + 2, sizeof(bytes));
    auto body = left.subspan(4, std::min<size_t>(bytes, left.size() - 4));
    if (!peer.Take(left[0], left[1], body)) return 0;
    left = left.subspan(4 + body.size());
  }
  return 0;
}
