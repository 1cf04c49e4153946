// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory/transfers.h"

#include <algorithm>

namespace farcall::client {

void Transfers::Expect(uint64_t id, std::byte* base, uint64_t bytes, std::function<void()> landed) {
  std::lock_guard lock(mutex_);
  Landing& landing = landings_[id];
  landing.base = base;
  landing.bytes = landing.left = bytes;
  landing.landed = std::move(landed);
  expected_.store(landings_.size(), std::memory_order_relaxed);
}

void Transfers::BindSerial(uint64_t id, uint32_t serial) {
  std::lock_guard lock(mutex_);
  auto found = landings_.find(id);
  if (found == landings_.end()) return;
  found->second.serial = serial;
  by_serial_[serial] = id;
}

bool Transfers::Forget(uint64_t id) {
  std::unique_lock lock(mutex_);
  auto found = landings_.find(id);
  if (found == landings_.end()) return false;
  // A lane may be writing into the memory this moment: the caller gets it back only afterwards.
  found->second.forgotten = true;
  idle_.wait(lock, [&] {
    found = landings_.find(id);
    return over_ || found == landings_.end() || found->second.busy.empty();
  });
  if (found != landings_.end()) {
    if (found->second.serial != 0) by_serial_.erase(found->second.serial);
    landings_.erase(found);
  }
  expected_.store(landings_.size(), std::memory_order_relaxed);
  return true;
}

void Transfers::ForgetSerial(uint32_t serial) {
  uint64_t id = 0;
  std::function<void()> landed;
  {
    std::lock_guard lock(mutex_);
    auto found = by_serial_.find(serial);
    if (found == by_serial_.end()) return;
    id = found->second;
    landed = std::move(landings_[id].landed);
  }
  Forget(id);
  if (landed) landed();
}

void Transfers::ForgetAll() {
  std::lock_guard lock(mutex_);
  over_ = true;
  idle_.notify_all();
  returned_.notify_all();
  used_.notify_all();
}

uint64_t Transfers::Lend(const std::byte* base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  loans_[++next_loan_] = {base, bytes};
  return next_loan_;
}

void Transfers::Return(uint64_t loan) {
  std::lock_guard lock(mutex_);
  loans_.erase(loan);
  returned_.notify_all();
}

bool Transfers::AnyLentLocked(const std::byte* base, uint64_t bytes) const {
  for (auto& [id, loan] : loans_)
    if (loan.base < base + bytes && base < loan.base + loan.bytes) return true;
  return false;
}

bool Transfers::AnyLent(const std::byte* base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return AnyLentLocked(base, bytes);
}

// What the link holds it gives back as it closes; what waits for a stream is never read once the
// session is over.
void Transfers::AwaitReturned(const std::byte* base, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [&] { return over_ || !AnyLentLocked(base, bytes); });
}

void Transfers::AwaitRoom(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  used_.wait(lock, [&] {
    return over_ || sent_bytes_ == used_bytes_ ||
           sent_bytes_ - used_bytes_ + bytes <= kMaxUnusedUploadBytes;
  });
  sent_bytes_ += bytes;
}

void Transfers::CountSent(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  sent_bytes_ += bytes;
}

bool Transfers::Used(uint64_t total_bytes) {
  std::lock_guard lock(mutex_);
  if (total_bytes < used_bytes_ || total_bytes > sent_bytes_) return false;
  used_bytes_ = total_bytes;
  used_.notify_all();
  return true;
}

bool Transfers::AnyInRange(const std::byte* base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  for (auto& [id, landing] : landings_)
    if (landing.base < base + bytes && base < landing.base + landing.bytes) return true;
  return false;
}

std::span<std::byte> Transfers::Destination(const ChunkHeader& header) {
  std::lock_guard lock(mutex_);
  auto found = landings_.find(header.transfer);
  if (found == landings_.end() || found->second.forgotten) {
    if (header.transfer == 0 || header.transfer > next_.load()) return {};
    static thread_local std::byte* sink = new std::byte[kMaxChunkBytes];
    return {sink, header.bytes};
  }
  Landing& landing = found->second;
  if (header.bytes > landing.left || header.offset > landing.bytes ||
      header.bytes > landing.bytes - header.offset)
    return {};
  if (std::find(landing.busy.begin(), landing.busy.end(), header.seq) == landing.busy.end())
    landing.busy.push_back(header.seq);
  return {landing.base + header.offset, header.bytes};
}

void Transfers::Landed(const ChunkHeader& header) {
  std::function<void()> landed;
  {
    std::lock_guard lock(mutex_);
    auto found = landings_.find(header.transfer);
    if (found == landings_.end()) return;
    Landing& landing = found->second;
    if (std::erase(landing.busy, header.seq) == 0) return;  // went to the sink
    landing.left -= header.bytes;
    if (landing.left == 0 && landing.busy.empty() && !landing.forgotten) {
      landed = std::move(landing.landed);
      if (landing.serial != 0) by_serial_.erase(landing.serial);
      landings_.erase(found);
      expected_.store(landings_.size(), std::memory_order_relaxed);
    }
    idle_.notify_all();
  }
  if (landed) landed();
}

}  // namespace farcall::client
