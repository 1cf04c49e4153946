// SPDX-License-Identifier: Apache-2.0
// A queue pair with its completion queue, and memory that is registered with the card. It knows no
// stream: verbs_end.cc does.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "transport/fabric/stream_window.h"
#include "transport/verbs/verbs_device.h"
#include "transport/verbs/verbs_exchange.h"

namespace farcall {

// Whole pages, registered. A forked child does not have them.
class VerbsBuffer {
 public:
  VerbsBuffer() = default;
  ~VerbsBuffer();
  VerbsBuffer(const VerbsBuffer&) = delete;
  VerbsBuffer& operator=(const VerbsBuffer&) = delete;

  //   Errors  kUnavailable: no memory, or not so much may be locked
  Status Map(VerbsDevice& device, size_t bytes, int access);
  // The card may still touch it, or this is a forked child.
  void Forget();
  std::byte* at(size_t offset) const { return memory_.at(offset); }
  size_t bytes() const { return memory_.bytes(); }
  uint32_t local_key() const { return region_->lkey; }
  VerbsMemory Offered() const { return {reinterpret_cast<uint64_t>(at(0)), region_->rkey, 0}; }

 private:
  FabricRing memory_;  // outlives its registration
  const VerbsApi* api_ = nullptr;
  ibv_mr* region_ = nullptr;
};

struct VerbsQueueLimits {
  uint32_t sends = 0;  // posted and not completed
  uint32_t slots = 0, slot_bytes = 0;
  bool is_reached = false;  // the peer may read and write memory of this side
};

// What has completed: a message that is in a slot, or something that was posted.
struct VerbsDone {
  bool is_message = false;
  size_t slot = 0, bytes = 0;  // of a message
  uint64_t ticket = 0;         // of what was posted
};

//   Thread  one at a time
class VerbsQueue {
 public:
  //   Errors  kUnavailable
  static Result<std::unique_ptr<VerbsQueue>> Make(VerbsDevice& device,
                                                  const VerbsQueueLimits& limits);
  // Ends what is under way: afterwards the card touches no memory of this end's.
  ~VerbsQueue();
  VerbsQueue(const VerbsQueue&) = delete;
  VerbsQueue& operator=(const VerbsQueue&) = delete;

  uint32_t number() const { return pair_->qp_num; }
  uint32_t first_packet() const { return first_packet_; }
  int descriptor() const { return channel_->fd; }
  //   Errors  kUnavailable
  Status Connect(const VerbsHello& peer);

  // The next completion, in the order of each direction; none: nothing has completed.
  //   Errors  kDisconnected (lost, or this card's failure), kMalformed: the peer's memory is not
  //           where it said
  Result<std::optional<VerbsDone>> Next();
  // True: the descriptor will be readable for whatever completes from now on.
  //   Errors  kDisconnected
  Status Arm();

  // Of what may be posted now.
  size_t room() const { return limits_.sends - static_cast<size_t>(posted_ - completed_); }
  // They answer with the ticket of its completion.
  //   Errors  kDisconnected: the queue takes no more
  Result<uint64_t> Send(const VerbsMessage& message, const std::byte* bytes, uint32_t bytes_key);
  Result<uint64_t> Read(std::byte* into, uint32_t into_key, size_t bytes, const VerbsMemory& from,
                        size_t offset);
  Result<uint64_t> Write(const std::byte* bytes, uint32_t bytes_key, size_t count,
                         const VerbsMemory& to, size_t offset);

  std::span<const std::byte> Slot(size_t slot) const;
  // Gives slots back, in the order in which messages came.
  Status PostSlot();
  uint64_t slots_posted() const { return slots_posted_; }

  void Forget();

 private:
  VerbsQueue(VerbsDevice& device, const VerbsQueueLimits& limits);
  Status Prepare();
  Result<uint64_t> Post(ibv_send_wr* request);
  Status Explain(const ibv_wc& completion) const;

  VerbsDevice& device_;
  const VerbsApi& api_;
  const VerbsQueueLimits limits_;
  const pid_t owner_;
  bool is_forgotten_ = false;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_qp* pair_ = nullptr;
  uint32_t first_packet_ = 0;
  uint32_t inline_bytes_ = 0;
  VerbsBuffer slots_;     // that messages come in
  VerbsBuffer messages_;  // and what stands before those that go, one for each send
  uint64_t posted_ = 0, completed_ = 0;
  uint64_t slots_posted_ = 0, slots_taken_ = 0;
  std::array<ibv_wc, 16> found_;
  size_t found_count_ = 0, found_next_ = 0;
};

}  // namespace farcall
