// SPDX-License-Identifier: Apache-2.0
// One end of a stream over RDMA. Both ends have a ring for each direction, of equal size: byte p of
// the stream lies at the same offset in the sender's and in the receiver's. Small pieces of a log
// are copied through a message. Of the others the client says where they lie, and the server reads
// them; the server writes its own and then says so.
//
// Credit, in bytes: a sender overwrites nothing that the peer has not read. In messages: one is
// sent only into a slot that the peer has posted. The last slots are kept for messages that give
// credit, the very last for those that give slots: so both sides never wait for each other.
#pragma once

#include <deque>
#include <memory>

#include "transport/fabric/stream_window.h"
#include "transport/verbs/verbs_channel.h"
#include "transport/verbs/verbs_queue.h"

namespace farcall {

class VerbsEnd final : public FabricEnd {
 public:
  static Result<FabricEndPointer> Make(VerbsDevice& device, VerbsRole role, VerbsUse use);
  ~VerbsEnd() override;
  VerbsEnd(const VerbsEnd&) = delete;
  VerbsEnd& operator=(const VerbsEnd&) = delete;

  const char* name() const override { return "verbs"; }
  std::vector<std::byte> Hello() const override { return Encode(hello_); }
  size_t hello_header_bytes() const override { return sizeof(VerbsHello); }
  Result<size_t> HelloBytes(std::span<const std::byte>) const override {
    return sizeof(VerbsHello);
  }
  Status Connect(std::span<const std::byte> hello) override;
  bool is_connected() const override { return is_connected_; }
  // A card drops what comes before it has been told of the sender.
  bool NeedsReadyPeer() const override { return true; }
  void OnPeerReady() override;
  bool has_heard() const override { return has_heard_; }

  void Progress() override;
  int descriptor() const override { return queue_->descriptor(); }
  bool Arm() override;
  // Of events that a driver has lost: the connection goes on, slowly.
  std::chrono::milliseconds longest_sleep() const override {
    return std::chrono::milliseconds(250);
  }
  bool LooksAreCheap() const override { return true; }
  const Status& failure() const override { return failure_; }

  size_t Room() const override;
  std::byte* Memory() const override { return send_ring_.at(SendOffset()); }
  void Post(size_t bytes) override;
  uint64_t sent() const override { return sent_; }
  bool HasUnread() const override { return peer_consumed_ != sent_; }
  bool IsReadByPeer() const override { return true; }
  bool IsIdle() const override { return true; }

  std::span<const std::byte> Readable() const override;
  bool HasReadable() const override { return window_.arrived() != window_.consumed(); }
  void Consume(size_t bytes) override;
  uint64_t arrived() const override { return window_.arrived(); }
  void TellAllRead() override;

  void Turn() override;
  void Drain(std::chrono::steady_clock::time_point deadline) override;
  void Forget() override;

 private:
  // What was posted and has not completed, in order.
  enum class What : uint8_t { kMessage, kPiece, kRead };
  struct Posted {
    What what = What::kMessage;
    uint64_t position = 0;  // kPiece: its end; kRead: its beginning
  };
  struct Pull {
    uint64_t position = 0;
    size_t bytes = 0;
  };

  VerbsEnd(VerbsDevice& device, VerbsRole role, VerbsUse use);
  Status Prepare();
  void Fail(const Status& why);
  size_t OffsetOf(uint64_t position) const { return position & (window_.window_bytes() - 1); }
  size_t SendOffset() const { return OffsetOf(sent_); }
  bool GoesByMessage(size_t bytes) const;
  // Of messages that the peer has room for.
  uint64_t Slots() const { return peer_slots_ - messages_sent_; }

  bool Note(const Result<uint64_t>& ticket, What what, uint64_t position);
  void SendMessage(VerbsKind kind, uint64_t position, size_t bytes, bool has_bytes);
  void TakeDone(const VerbsDone& done);
  void TakeMessage(const VerbsDone& done);
  Status TakePiece(const VerbsMessage& message, std::span<const std::byte> bytes);
  Status TakeCredit(const VerbsMessage& message);
  void PullPieces();
  void GiveCredit();

  VerbsDevice& device_;
  const VerbsRole role_;
  const VerbsUse use_;
  VerbsBuffer send_ring_, receive_ring_;  // outlive the queue
  std::unique_ptr<VerbsQueue> queue_;
  VerbsHello hello_, peer_;
  bool is_connected_ = false, is_peer_ready_ = false, has_heard_ = false;
  Status failure_;
  std::deque<Posted> posted_;

  uint64_t sent_ = 0, released_ = 0, peer_consumed_ = 0;
  uint64_t messages_sent_ = 0, peer_slots_ = 0;

  StreamWindow window_;
  uint64_t told_consumed_ = 0, told_slots_ = 0;
  bool tells_all_ = false;
  std::deque<Pull> pulls_;  // announced, and not asked for yet
  size_t reads_ = 0;        // under way
};

}  // namespace farcall
