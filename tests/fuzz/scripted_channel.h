// SPDX-License-Identifier: Apache-2.0
// A connection whose other end is a fuzz target: what it feeds is read, what is sent is counted.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "proto/wire.h"
#include "transport/channel.h"

namespace farcall::fuzz {

// The target's end. Outlives the channel.
//   Thread  any
class Script {
 public:
  // `slow`: takes a few bytes at a time, and every other time none.
  // Not `framed`: what is sent is kept for Sent, and need not be frames and chunks.
  explicit Script(bool slow, bool framed = true) : slow_(slow), framed_(framed) {}

  void Feed(std::span<const std::byte> bytes) {
    std::lock_guard lock(mutex_);
    in_.insert(in_.end(), bytes.begin(), bytes.end());
    changed_.notify_all();
  }
  void CutByPeer() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // Waits until whoever reads has taken all there is, and waits in turn. Nobody may be reading.
  void Settle() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(has_reader_ ? 20 : 0),
                      [this] { return closed_ || (in_.empty() && waiting_); });
  }
  // What was sent since the last call, where it is not framed.
  std::vector<std::byte> Sent() {
    std::lock_guard lock(mutex_);
    return std::exchange(out_, {});
  }
  uint64_t frames_sent() {
    std::lock_guard lock(mutex_);
    return frames_;
  }
  uint64_t chunks_sent() {
    std::lock_guard lock(mutex_);
    return chunks_;
  }

 private:
  friend class ScriptedChannel;
  // Numbers of the frames or chunks that went out whole.
  void CountSent() {
    size_t at = 0;
    while (true) {
      uint32_t magic = 0, bytes = 0;
      if (out_.size() - at < sizeof(FrameHeader)) break;
      std::memcpy(&magic, out_.data() + at, sizeof(magic));
      std::memcpy(&bytes, out_.data() + at + 4, sizeof(bytes));
      const bool is_chunk = magic == kChunkMagic || magic == kPackedMagic;
      size_t whole = is_chunk ? sizeof(ChunkHeader) + bytes : bytes;
      if (magic == kPackedMagic) {
        PackedHeader packed;
        std::memcpy(&packed, out_.data() + at + sizeof(ChunkHeader), sizeof(packed));
        whole = sizeof(ChunkHeader) + sizeof(packed) + packed.bytes;
      }
      if ((!is_chunk && magic != kFrameMagic) || whole < sizeof(ChunkHeader))
        std::abort();  // we said something that is neither
      if (out_.size() - at < whole) break;
      uint64_t seq = 0;
      std::memcpy(&seq, out_.data() + at + 8, sizeof(seq));
      (is_chunk ? chunks_ : frames_) = std::max(is_chunk ? chunks_ : frames_, seq);
      at += whole;
    }
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(at));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const bool slow_;
  const bool framed_;
  bool closed_ = false;
  bool waiting_ = false;
  bool has_reader_ = false;
  bool full_ = false;
  uint64_t frames_ = 0, chunks_ = 0;
  std::vector<std::byte> in_, out_;
};

class ScriptedChannel final : public Channel {
 public:
  explicit ScriptedChannel(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    std::lock_guard lock(script_->mutex_);
    if (script_->closed_) return Status(Code::kDisconnected, "closed");
    script_->full_ = script_->slow_ && !script_->full_;
    if (script_->full_) return size_t{0};
    size_t total = 0;
    size_t room = script_->slow_ ? 40 : SIZE_MAX;
    for (auto part : parts) {
      part = part.first(std::min(part.size(), room - total));
      script_->out_.insert(script_->out_.end(), part.begin(), part.end());
      total += part.size();
    }
    if (script_->framed_) script_->CountSent();
    return total;
  }
  Result<size_t> TryReceive(std::span<std::byte> into) override {
    std::lock_guard lock(script_->mutex_);
    script_->has_reader_ = true;
    std::vector<std::byte>& in = script_->in_;
    if (in.empty() && script_->closed_) return Status(Code::kDisconnected, "closed");
    size_t bytes = std::min(into.size(), in.size());
    std::copy_n(in.begin(), bytes, into.begin());
    in.erase(in.begin(), in.begin() + static_cast<ptrdiff_t>(bytes));
    return bytes;
  }
  bool WaitReadable(Clock::time_point deadline, int) override {
    std::unique_lock lock(script_->mutex_);
    auto ready = [this] { return script_->closed_ || !script_->in_.empty(); };
    script_->waiting_ = true;
    script_->changed_.notify_all();
    if (deadline == Clock::time_point::max())
      script_->changed_.wait(lock, ready);
    else
      script_->changed_.wait_until(lock, deadline, ready);
    script_->waiting_ = false;
    return ready();
  }
  bool WaitWritable(Clock::time_point) override { return true; }
  void Close() override { script_->CutByPeer(); }
  void Abandon() override {}
  int Descriptor() const override { return -1; }
  std::string PeerName() const override { return "fuzzer"; }

 private:
  const std::shared_ptr<Script> script_;
};

}  // namespace farcall::fuzz
