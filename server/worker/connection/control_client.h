// SPDX-License-Identifier: Apache-2.0
// The worker's end of the control socket: asks the ledger, and waits for what the supervisor passes
// on.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "server/control/messages.h"
#include "server/memory/memory_broker.h"
#include "server/state/objects/image_keeper.h"
#include "sync/cond_var.h"

namespace farcall::server {

// What the supervisor says because it was asked: it has the id of its question.
template <typename M>
concept IsAnswer = M::kDirection == control::Direction::kToWorker&& requires(M& message) {
  { message.id } -> std::same_as<uint64_t&>;
};

class ControlClient final : public MemoryBroker, public ImageKeeper {
 public:
  explicit ControlClient(int fd);

  Status Charge(int device, uint64_t bytes) override;
  void Refund(int device, uint64_t bytes) override;
  quota::Usage Query(int device) override;
  Status Share(int descriptor, int device, uint64_t bytes, ShareToken* token) override;
  Status Redeem(const ShareToken& token, Shared* shared) override;
  void DropShared(const ShareToken& token) override;
  std::vector<ProcessUse> Processes(int device) override;
  int waiting_charges() const override { return waiting_charges_.load(); }
  bool NoteDeviceFull(int device, uint64_t bytes) override;
  void Keep(const Hash256& hash, std::span<const std::byte> bytes) override;
  void NoteRead(const Hash256& hash, bool intact) override;
  // The server swaps: a charge may wait for room.   Before the first charge
  void SetSwaps() { swaps_ = true; }

  // Hands an answer to whoever waits for it, with the descriptor that came with it; false: the
  // message is no answer.
  bool TakeAnswer(const control::ToWorker& message, std::vector<int>* descriptors);
  // The supervisor is gone: nobody waits any longer.
  void End();
  int fd() const { return fd_; }

 private:
  struct Waiting {
    std::optional<control::ToWorker> answer;
    int descriptor = -1;
  };
  // `send`: a descriptor that goes with it; -1: none. `received`: takes the one that comes with the
  // answer, -1: none came.
  template <typename Question>
  Result<typename Question::Reply> Ask(Question question, int send = -1, int* received = nullptr);

  const int fd_;
  std::mutex mutex_;
  CondVar answered_;
  std::map<uint64_t, Waiting> waiting_;
  uint64_t last_id_ = 0;
  bool ended_ = false;
  std::atomic<int> waiting_charges_{0};
  bool swaps_ = false;
};

}  // namespace farcall::server
