// SPDX-License-Identifier: Apache-2.0
// Bulk transfers under way: where arriving chunks land, and how many bytes the server has yet to
// acknowledge.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "proto/wire.h"
#include "sync/cond_var.h"

namespace farcall::client {

class Transfers {
 public:
  uint64_t NewId() { return next_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Chunks of `id` land in [base, base + bytes). `landed` runs once, on a lane's thread, after the
  // last byte.
  void Expect(uint64_t id, std::byte* base, uint64_t bytes, std::function<void()> landed = nullptr);
  // Binds the transfer to the record that asked for it, so that the record's failure forgets it.
  void BindSerial(uint64_t id, uint32_t serial);
  // True if something was still expected.
  bool Forget(uint64_t id);
  void ForgetSerial(uint32_t serial);
  // The session is over: nothing arrives any more.
  void ForgetAll();
  // Chunks are still expected inside the range.
  bool AnyInRange(const std::byte* base, uint64_t bytes);

  // ---- Uploads
  // The link reads [base, base + bytes) until Return: whoever frees the memory waits for that.
  uint64_t Lend(const std::byte* base, uint64_t bytes);
  void Return(uint64_t loan);
  bool AnyLent(const std::byte* base, uint64_t bytes);
  void AwaitReturned(const std::byte* base, uint64_t bytes);
  // Counts `bytes` as sent; blocks while the server holds too much that no record has used yet.
  void AwaitRoom(uint64_t bytes);
  void CountSent(uint64_t bytes);  // without waiting: what the server waits for itself
  // The server has used so much so far. False: more than was sent.
  bool Used(uint64_t total_bytes);

  // Chunks of a forgotten transfer go to a sink. Empty: the chunk lies about itself.
  std::span<std::byte> Destination(const ChunkHeader& header);
  void Landed(const ChunkHeader& header);
  uint64_t expected() const { return expected_.load(std::memory_order_relaxed); }

 private:
  bool AnyLentLocked(const std::byte* base, uint64_t bytes) const;
  struct Landing {
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    uint64_t left = 0;
    std::vector<uint64_t>
        busy;  // chunks being read into it; a chunk cut off by a lost link comes again
    bool forgotten = false;  // drop when idle: its memory is the caller's again
    uint32_t serial = 0;
    std::function<void()> landed;
  };
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> expected_{0};
  bool over_ = false;
  std::mutex mutex_;
  CondVar idle_;
  struct Loan {
    const std::byte* base = nullptr;
    uint64_t bytes = 0;
  };
  std::unordered_map<uint64_t, Loan> loans_;
  uint64_t next_loan_ = 0;
  CondVar returned_;
  uint64_t sent_bytes_ = 0, used_bytes_ = 0;
  CondVar used_;
  std::unordered_map<uint64_t, Landing> landings_;
  std::unordered_map<uint32_t, uint64_t> by_serial_;
};

}  // namespace farcall::client
