// SPDX-License-Identifier: Apache-2.0
// The memory ledger's bookkeeping.
#include "quota/memory/memory_ledger.h"

#include <algorithm>

namespace farcall::quota {

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Refund();
  ledger_ = std::exchange(other.ledger_, nullptr);
  vgpu_ = std::move(other.vgpu_);
  device_ = other.device_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

uint64_t Charge::RefundSome(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  if (bytes == 0) return 0;
  bytes_ -= bytes;
  ledger_->Refund(vgpu_, device_, bytes);
  return bytes;
}

Charge Charge::Split(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  bytes_ -= bytes;
  return Charge(ledger_, vgpu_, device_, bytes);
}

void Charge::Merge(Charge other) {
  if (bytes_ == 0) {
    *this = std::move(other);
    return;
  }
  bytes_ += std::exchange(other.bytes_, 0);
}

void MemoryLedger::Open(const std::string& vgpu, int device, uint64_t quota_bytes) {
  std::lock_guard lock(mutex_);
  auto [account, is_new] = accounts_.try_emplace({vgpu, device});
  if (is_new || account->second.holders == 0) account->second.usage.quota_bytes = quota_bytes;
  ++account->second.holders;
}

void MemoryLedger::Close(const std::string& vgpu, int device) {
  std::lock_guard lock(mutex_);
  auto account = accounts_.find({vgpu, device});
  if (account == accounts_.end() || account->second.holders == 0) return;
  --account->second.holders;
  DropIfUnused(account);
}

Status MemoryLedger::SetQuota(const std::string& vgpu, int device, uint64_t quota_bytes) {
  std::lock_guard lock(mutex_);
  auto account = accounts_.find({vgpu, device});
  if (account == accounts_.end()) {
    return {Code::kInvalid,
            "memory quota: no vGPU '" + vgpu + "' on device " + std::to_string(device)};
  }
  account->second.usage.quota_bytes = quota_bytes;
  return {};
}

Result<Charge> MemoryLedger::Reserve(const std::string& vgpu, int device, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto account = accounts_.find({vgpu, device});
  if (account == accounts_.end())
    return Status(Code::kInvalid, "device memory: no account on device " + std::to_string(device));
  Usage& usage = account->second.usage;
  if (bytes > usage.free_bytes()) {
    return Status(Code::kQuotaExceeded,
                  std::string(device == kHostMemory ? "pinned host memory" : "device memory") +
                      ": asked " + std::to_string(bytes) + " bytes, " +
                      std::to_string(usage.free_bytes()) + " free of " +
                      std::to_string(usage.quota_bytes));
  }
  usage.charged_bytes += bytes;
  return Charge(this, vgpu, device, bytes);
}

Usage MemoryLedger::usage(const std::string& vgpu, int device) const {
  std::lock_guard lock(mutex_);
  auto account = accounts_.find({vgpu, device});
  return account == accounts_.end() ? Usage() : account->second.usage;
}

uint64_t MemoryLedger::charged_on_device(int device) const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [key, account] : accounts_)
    if (key.second == device) bytes += account.usage.charged_bytes;
  return bytes;
}

void MemoryLedger::Refund(const std::string& vgpu, int device, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto account = accounts_.find({vgpu, device});
  if (account == accounts_.end()) return;
  account->second.usage.charged_bytes -= bytes;
  DropIfUnused(account);
}

void MemoryLedger::DropIfUnused(std::map<Key, Account>::iterator account) {
  if (account->second.holders == 0 && account->second.usage.charged_bytes == 0)
    accounts_.erase(account);
}

}  // namespace farcall::quota
