// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_end.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "transport/link.h"
#include "transport/poll.h"

namespace farcall {
namespace {

// A full batch of records goes in one message.
constexpr uint32_t kMaxDataBytes = sizeof(FrameHeader) + kBatchRoomBytes;
constexpr uint32_t kLogSlots = 16, kLaneSlots = 32;
constexpr uint32_t kSends = 64;
// Long enough to pay for a round trip, short enough for several to be under way.
constexpr size_t kMaxPieceBytes = 256u << 10;
constexpr int kMaxTurns = 256;
// Slots that are kept for messages that give credit; the last for those that give slots.
constexpr uint64_t kKeptForCredit = 3, kKeptForSlots = 1;
// Of the queue: what one piece takes, and a message of credit.
constexpr size_t kSendsOfPiece = 2, kSendsKept = 2;

size_t WindowBytes(VerbsUse use) {
  return use == VerbsUse::kLog ? kVerbsLogWindowBytes : kVerbsLaneWindowBytes;
}

}  // namespace

Result<FabricEndPointer> MakeVerbsEnd(VerbsDevice& device, VerbsRole role, VerbsUse use) {
  return VerbsEnd::Make(device, role, use);
}

VerbsEnd::VerbsEnd(VerbsDevice& device, VerbsRole role, VerbsUse use)
    : device_(device), role_(role), use_(use), window_(WindowBytes(use)) {}

Result<FabricEndPointer> VerbsEnd::Make(VerbsDevice& device, VerbsRole role, VerbsUse use) {
  std::unique_ptr<VerbsEnd> end(new VerbsEnd(device, role, use));
  FARCALL_TRY(end->Prepare());
  return FabricEndPointer(std::move(end));
}

Status VerbsEnd::Prepare() {
  const bool is_reached = role_ == VerbsRole::kOffers;
  const size_t bytes = window_.window_bytes();
  FARCALL_TRY(send_ring_.Map(device_, bytes, is_reached ? IBV_ACCESS_REMOTE_READ : 0));
  FARCALL_TRY(receive_ring_.Map(
      device_, bytes, IBV_ACCESS_LOCAL_WRITE | (is_reached ? IBV_ACCESS_REMOTE_WRITE : 0)));
  VerbsQueueLimits limits;
  limits.sends = kSends;
  limits.slots = use_ == VerbsUse::kLog ? kLogSlots : kLaneSlots;
  limits.slot_bytes = sizeof(VerbsMessage) + (use_ == VerbsUse::kLog ? kMaxDataBytes : 0);
  limits.is_reached = is_reached;
  Result<std::unique_ptr<VerbsQueue>> queue = VerbsQueue::Make(device_, limits);
  FARCALL_TRY(queue.status());
  queue_ = std::move(*queue);
  hello_.role = role_;
  hello_.mtu = static_cast<uint8_t>(device_.port_attributes().active_mtu);
  hello_.queue_pair = queue_->number();
  hello_.first_packet = queue_->first_packet();
  hello_.lid = device_.port_attributes().lid;
  hello_.reads = device_.reads();
  hello_.is_ethernet = device_.is_ethernet() ? 1 : 0;
  hello_.window_bytes = static_cast<uint32_t>(bytes);
  hello_.slots = limits.slots;
  hello_.slot_bytes = limits.slot_bytes;
  std::copy(std::begin(device_.gid().raw), std::end(device_.gid().raw), hello_.gid.begin());
  if (is_reached) {
    hello_.sends = send_ring_.Offered();
    hello_.receives = receive_ring_.Offered();
  }
  told_slots_ = queue_->slots_posted();
  return {};
}

VerbsEnd::~VerbsEnd() = default;

void VerbsEnd::Forget() {
  send_ring_.Forget();
  receive_ring_.Forget();
  queue_->Forget();
}

Status VerbsEnd::Connect(std::span<const std::byte> hello) {
  Result<VerbsHello> peer = DecodeVerbsHello(hello, role_);
  FARCALL_TRY(peer.status());
  if (peer->window_bytes != hello_.window_bytes) {
    return {Code::kUnsupported, "verbs: the peer's ring has " + std::to_string(peer->window_bytes) +
                                    " bytes, this side's " + std::to_string(hello_.window_bytes)};
  }
  FARCALL_TRY(queue_->Connect(*peer));
  peer_ = *peer;
  peer_slots_ = peer_.slots;
  is_connected_ = true;
  return {};
}

void VerbsEnd::OnPeerReady() {
  is_peer_ready_ = true;
  SendMessage(VerbsKind::kCredit, 0, 0, false);  // of nothing: the peer hears that it is reached
}

void VerbsEnd::Fail(const Status& why) {
  if (failure_.ok()) failure_ = why;
}

void VerbsEnd::Progress() {
  for (int turn = 0; turn < kMaxTurns && failure_.ok(); ++turn) {
    Result<std::optional<VerbsDone>> done = queue_->Next();
    if (!done.ok()) return Fail(done.status());
    if (!done->has_value()) break;
    TakeDone(**done);
  }
  PullPieces();
  GiveCredit();
}

bool VerbsEnd::Arm() {
  if (Status armed = queue_->Arm(); !armed.ok()) {
    Fail(armed);
    return true;
  }
  // What came before it was armed rings no bell.
  const uint64_t arrived = window_.arrived(), released = released_, consumed = peer_consumed_;
  const bool had_failed = !failure_.ok();
  Progress();
  return arrived == window_.arrived() && released == released_ && consumed == peer_consumed_ &&
         had_failed == !failure_.ok();
}

void VerbsEnd::Turn() {
  Progress();
  if (Arm()) {
    pollfd fd{queue_->descriptor(), POLLIN, 0};
    PollUntil({&fd, 1}, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  }
}

// The card has taken what goes by message and what is written. What the peer is to read it asks for
// once it has seen the socket's end: the channel lingers for that.
void VerbsEnd::Drain(std::chrono::steady_clock::time_point deadline) {
  while (failure_.ok() && is_peer_ready_ && std::chrono::steady_clock::now() < deadline &&
         !posted_.empty())
    Turn();
}

bool VerbsEnd::Note(const Result<uint64_t>& ticket, What what, uint64_t position) {
  if (!ticket.ok()) {
    Fail(ticket.status());
    return false;
  }
  posted_.push_back({what, position});
  return true;
}

void VerbsEnd::SendMessage(VerbsKind kind, uint64_t position, size_t bytes, bool has_bytes) {
  told_consumed_ = window_.consumed();
  told_slots_ = queue_->slots_posted();
  tells_all_ = false;
  const VerbsMessage message{kind, static_cast<uint32_t>(bytes), position, told_consumed_,
                             told_slots_};
  const std::byte* from = has_bytes ? send_ring_.at(OffsetOf(position)) : nullptr;
  ++messages_sent_;
  Note(queue_->Send(message, from, send_ring_.local_key()),
       kind == VerbsKind::kCredit ? What::kMessage : What::kPiece, position + bytes);
}

void VerbsEnd::TakeDone(const VerbsDone& done) {
  if (done.is_message) return TakeMessage(done);
  const Posted first = posted_.front();
  posted_.pop_front();
  if (first.what == What::kPiece) {
    released_ = first.position;
  } else if (first.what == What::kRead) {
    --reads_;
    window_.Land(first.position);
  }
}

// ---- the sender's

bool VerbsEnd::GoesByMessage(size_t bytes) const {
  return use_ == VerbsUse::kLog && sizeof(VerbsMessage) + bytes <= peer_.slot_bytes;
}

size_t VerbsEnd::Room() const {
  if (!is_peer_ready_ || !failure_.ok() || queue_->room() < kSendsOfPiece + kSendsKept ||
      Slots() <= kKeptForCredit)
    return 0;
  const uint64_t used = sent_ - std::min(peer_consumed_, released_);
  const size_t ring_bytes = window_.window_bytes();
  return std::min({ring_bytes - static_cast<size_t>(used), ring_bytes - SendOffset(),
                   std::min(kMaxPieceBytes, ring_bytes / 4)});
}

void VerbsEnd::Post(size_t bytes) {
  const uint64_t position = sent_;
  sent_ += bytes;
  if (GoesByMessage(bytes)) return SendMessage(VerbsKind::kData, position, bytes, true);
  if (role_ == VerbsRole::kOffers)
    return SendMessage(VerbsKind::kAnnounced, position, bytes, false);
  // What is written is there before the message that follows it.
  const size_t offset = OffsetOf(position);
  if (Note(queue_->Write(send_ring_.at(offset), send_ring_.local_key(), bytes, peer_.receives,
                         offset),
           What::kMessage, 0))
    SendMessage(VerbsKind::kWritten, position, bytes, false);
}

Status VerbsEnd::TakeCredit(const VerbsMessage& message) {
  if (message.consumed > sent_ || message.consumed < peer_consumed_) {
    return {Code::kMalformed, "verbs: the peer has read " + std::to_string(message.consumed) +
                                  " bytes of the stream, of " + std::to_string(sent_) +
                                  " that were sent"};
  }
  if (message.slots_posted < peer_slots_ || message.slots_posted > messages_sent_ + peer_.slots) {
    return {Code::kMalformed, "verbs: the peer has posted " + std::to_string(message.slots_posted) +
                                  " slots, of " + std::to_string(peer_.slots) + " that it has"};
  }
  peer_consumed_ = message.consumed;
  peer_slots_ = message.slots_posted;
  return {};
}

// ---- the receiver's

void VerbsEnd::TakeMessage(const VerbsDone& done) {
  VerbsMessage message;
  const std::span<const std::byte> slot = queue_->Slot(done.slot).first(done.bytes);
  if (slot.size() < sizeof(message)) {
    return Fail({Code::kMalformed,
                 "verbs: the peer sends a message of " + std::to_string(slot.size()) + " bytes"});
  }
  std::memcpy(&message, slot.data(), sizeof(message));
  has_heard_ = true;
  Status taken = TakeCredit(message);
  if (taken.ok() && message.kind != VerbsKind::kCredit)
    taken = TakePiece(message, slot.subspan(sizeof(message)));
  if (taken.ok()) taken = queue_->PostSlot();
  if (!taken.ok()) Fail(taken);
}

Status VerbsEnd::TakePiece(const VerbsMessage& message, std::span<const std::byte> bytes) {
  const bool is_announced = message.kind == VerbsKind::kAnnounced;
  const bool is_written = message.kind == VerbsKind::kWritten;
  if ((message.kind != VerbsKind::kData && !is_announced && !is_written) ||
      (is_announced && role_ != VerbsRole::kReaches) ||
      (is_written && role_ != VerbsRole::kOffers) ||
      (message.kind == VerbsKind::kData && bytes.size() != message.bytes)) {
    return {Code::kMalformed, "verbs: the peer sends a message of kind " +
                                  std::to_string(static_cast<uint32_t>(message.kind)) + ", of " +
                                  std::to_string(message.bytes) + " bytes, with " +
                                  std::to_string(bytes.size())};
  }
  if (Status claimed = window_.Claim(message.position, message.bytes); !claimed.ok())
    return {claimed.code(), "verbs: " + claimed.message()};
  if (is_announced) {
    pulls_.push_back({message.position, message.bytes});
    return {};
  }
  if (message.kind == VerbsKind::kData)
    std::memcpy(receive_ring_.at(OffsetOf(message.position)), bytes.data(), bytes.size());
  window_.Land(message.position);
  return {};
}

void VerbsEnd::PullPieces() {
  const size_t limit = std::min(device_.reads(), peer_.reads);
  while (!pulls_.empty() && failure_.ok() && reads_ < limit && queue_->room() > kSendsKept) {
    const Pull pull = pulls_.front();
    const size_t offset = OffsetOf(pull.position);
    if (!Note(queue_->Read(receive_ring_.at(offset), receive_ring_.local_key(), pull.bytes,
                           peer_.sends, offset),
              What::kRead, pull.position))
      return;
    pulls_.pop_front();
    ++reads_;
  }
}

std::span<const std::byte> VerbsEnd::Readable() const {
  const size_t offset = OffsetOf(window_.consumed());
  const uint64_t there = window_.arrived() - window_.consumed();
  return {receive_ring_.at(offset),
          std::min(static_cast<size_t>(there), window_.window_bytes() - offset)};
}

void VerbsEnd::Consume(size_t bytes) {
  window_.Consume(bytes);
  GiveCredit();
}

void VerbsEnd::TellAllRead() {
  tells_all_ = window_.consumed() != told_consumed_;
  GiveCredit();
}

// A quarter of the window at a time, and of the slots: the sender never waits while there is more
// than that.
void VerbsEnd::GiveCredit() {
  if (!is_peer_ready_ || !failure_.ok() || queue_->room() == 0) return;
  const bool owes_slots = queue_->slots_posted() - told_slots_ >= hello_.slots / 4;
  const bool owes_bytes =
      tells_all_ || window_.consumed() - told_consumed_ >= window_.window_bytes() / 4;
  if ((owes_slots && Slots() > 0) || (owes_bytes && Slots() > kKeptForSlots))
    SendMessage(VerbsKind::kCredit, 0, 0, false);
}

}  // namespace farcall
