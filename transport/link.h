// SPDX-License-Identifier: Apache-2.0
// A session's link: the ordered log of frames plus bulk lanes, each side keeping its unacknowledged
// tail, so that a lost connection costs time and not the session. Both client and server use it; it
// knows no CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/handshake/handshake.h"
#include "proto/status.h"
#include "proto/wire.h"
#include "transport/channel.h"

namespace farcall {

struct FrameView {
  const FrameHeader& header;
  std::span<const std::byte>
      records;  // whole records, back to back; bounds of each still to be checked by the reader
};

// What the owner of a link hears. OnFrame is called on the thread that pumps the log, the chunk
// calls on a lane's thread, the rest on the link's service thread; never under a lock of the
// link's.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  // In order, exactly once, across reconnects. A failed status (kMalformed) closes the link.
  virtual Status OnFrame(const FrameView& frame) = 0;
  // Where a chunk's payload goes: exactly header.bytes long and valid until OnChunk; an empty span
  // closes the link (kMalformed). May block while memory is short (that is the lane's
  // back-pressure). A connection lost in mid-payload means that the same chunk is asked for again,
  // without an OnChunk between.
  virtual std::span<std::byte> ChunkDestination(const ChunkHeader& header) = 0;
  virtual void OnChunk(const ChunkHeader& header) = 0;
  virtual void OnDetached(const Status& why) {}
  virtual void OnReattached() {}
  virtual void OnClosed(const Status& why) = 0;  // final, once
};

struct LinkOptions {
  bool is_client = false;
  uint32_t lanes = 2;
  uint32_t grace_ms = 60000;
  uint32_t heartbeat_ms = 1000;  // a frame at least this often; silence of 4 s (client) = link lost
  uint32_t silence_ms = 4000;    // client only; the server waits for the grace
  // Heartbeats end so long after the last frame of the log, while nothing is awaited, and silence
  // is then no fault; the transport finds out whether the peer is there. 0: they never end. At
  // least heartbeat_ms + silence_ms, and only if the peer answers kFrameAsks.
  uint32_t idle_after_ms = 0;
  size_t max_tail_bytes =
      64u << 20;  // unacknowledged frames kept; SendFrame blocks (client) beyond
  size_t max_chunk_tail_bytes = 64u << 20;
  uint32_t spin_us = 50;  // the most that Pump spins before it blocks (spin.h); 0: not at all
  bool checksum = true;
  // Of chunks on the lanes; what is not off takes compressed ones. kAuto sends them where a lane is
  // slower than the compressor and they get smaller (chunk_packing.h), kAlways, for tests, wherever
  // they get smaller.
  enum class Packing : uint8_t { kOff, kAuto, kAlways };
  Packing packing = Packing::kOff;
};

// Of records: a batch of kBatchBytes, and the record that fills it still fits.
inline constexpr size_t kBatchRoomBytes = kBatchBytes + (4u << 10);

// A frame under construction: room for the header, then records. From a pool; its memory becomes
// the tail.
class FrameBuffer {
 public:
  // Free space after what is written; none when the header could count no further record.
  std::span<std::byte> room() {
    if (records_ == UINT16_MAX) return {};
    return {bytes_.get() + used_, capacity_ - used_};
  }
  // The same, if it holds so many bytes, or null; for a caller that seals a frame long before the
  // header could count no further record.
  std::byte* RoomFor(size_t bytes) {
    return capacity_ - used_ >= bytes ? bytes_.get() + used_ : nullptr;
  }
  void Commit(size_t bytes) {  // bytes of a whole record have been written to room()
    used_ += bytes;
    ++records_;
  }
  size_t used_bytes() const { return used_ - sizeof(FrameHeader); }  // records only
  uint16_t records() const { return records_; }

  explicit FrameBuffer(size_t capacity_bytes);  // of records; header room is added
 private:
  friend class FrameAccess;
  std::unique_ptr<std::byte[]> bytes_;  // not cleared: only what was written leaves
  size_t capacity_ = 0;                 // with the header
  size_t used_ = sizeof(FrameHeader);
  uint16_t records_ = 0;
};

class LinkCore;  // link/link_core.h

// The destructor ends its threads: no other call may be under way, and the observer still lives.
class Link final {
 public:
  // Client: how to connect again; does the handshake (resume or lane join) and returns the attached
  // channel and the server's positions.
  //   Thread  the link's own; for lanes several at once
  struct Reconnected {
    std::unique_ptr<Channel> channel;
    uint64_t peer_received_seq = 0;
    uint64_t peer_received_chunks = 0;
  };
  using Reconnect = std::function<Result<Reconnected>(
      LinkRole role, uint32_t lane, uint64_t received_seq, uint64_t received_chunks)>;

  Link(LinkObserver& observer, const LinkOptions& options, Reconnect reconnect = nullptr);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Gives the link its log connection: first attach, or (server) after the supervisor passed a
  // resumed one on.
  void AttachLog(std::unique_ptr<Channel> channel, uint64_t peer_received_seq,
                 uint64_t peer_received_chunks);
  // Closes the channel while the log is lost: lanes belong to one connection of it.
  void AttachLane(uint32_t lane, std::unique_ptr<Channel> channel);
  // Client: dials the lanes if not yet open. Cheap when open.
  Status OpenLanes();

  // Highest frame seq received in order: what HELLO or WELCOME of a resume carries, with
  // chunks_received().
  uint64_t received_seq() const;

  std::unique_ptr<FrameBuffer> TakeBuffer(size_t capacity_bytes);  // pooled
  // Appends the frame to the log. Order of calls = order on the wire (the caller serialises).
  //   Client  blocks while the socket is full or the tail over its bound; returns kOk while
  //           detached (the tail is sent again)
  //   Server  never blocks: what the socket does not take waits for the link's service thread. A
  //           tail over 4 x max_tail_bytes closes the link: that client does not read
  //   Thread  the one that pumps never blocks here, on either side
  Status SendFrame(std::unique_ptr<FrameBuffer>&& frame);
  // Sends transfer bytes on the lanes in pieces of at most kMaxChunkBytes.
  //   kCopied    keeps a copy until acknowledged (bounded: blocks at max_chunk_tail_bytes); returns
  //              once handed to the socket
  //   kBorrowed  no copy: returns only when the peer has acknowledged all of it (or the link
  //              closed)
  //   kOwned     `done` is called when acknowledged (on a thread of the link's, or the one that
  //              pumps) or when the link closes; bytes stay valid until then; never blocks on the
  //              peer's acknowledgement
  //   Errors     kDisconnected (closed; `done` is not called then), kInvalid (kBorrowed on the
  //              thread that pumps: it would wait for itself)
  enum class Retain { kCopied, kBorrowed, kOwned };
  Status SendTransfer(uint64_t transfer, uint64_t offset, std::span<const std::byte> bytes,
                      Retain retain, std::function<void()> done = nullptr);
  uint64_t chunks_sent() const;      // stamped into frames by SendFrame
  uint64_t chunks_received() const;  // contiguous prefix
  // Blocks until chunks_received() >= seq, the deadline or the end.
  Status WaitChunks(uint64_t seq, Clock::time_point deadline);

  // Reads the log once: delivers whole frames through the observer, drains queued output, sends a
  // heartbeat if one is due. Spins up to spin_us, then blocks until something arrives, `wake_fd` is
  // readable or the deadline. One thread at a time.
  //   Errors  kTimeout (nothing came), kDisconnected / kMalformed (closed for good)
  Status Pump(Clock::time_point deadline, int wake_fd = -1);

  // Client: somebody looks for news of the peer again and again, without a question. Cheap.
  void ExpectNews();
  // Whether the log's present connection carries descriptors.   Thread  any
  bool CarriesDescriptors() const;
  // Server: sends one that the client has before any frame that is sent later. It is lost with the
  // connection, and not sent again.
  //   Errors  kDisconnected (detached), kUnavailable, kUnsupported.   Thread  any
  Status SendDescriptor(int descriptor);
  // Client: the one that came first and was not taken yet, the caller's to close; -1: none.
  //   Thread  in OnFrame
  int TakeDescriptor();

  // Unacknowledged bytes of frames: what a server looks at before it produces more.
  size_t tail_bytes() const;
  bool attached() const;
  Status closed() const;  // ok while the link lives
  // Sends kGoodbye {why} behind what is queued (bounded time), then ends. Reason goes to OnClosed
  // before Close returns, unless called on a thread of the link's or on the one that pumps. The
  // peer's link closes with that reason, without a grace.
  void Close(const Status& why);
  // Forked child: drops everything without traffic, joins nothing. Afterwards only the destructor
  // may be called.
  void Abandon();

  struct Counters {
    uint64_t frames_out, frames_in, bytes_out, bytes_in, chunk_bytes_out, chunk_bytes_in,
        reconnects;
  };
  Counters counters() const;

 private:
  std::unique_ptr<LinkCore> core_;  // apart, so that a forked child can leave it behind whole
};

}  // namespace farcall
