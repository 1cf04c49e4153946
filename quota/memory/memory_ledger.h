// SPDX-License-Identifier: Apache-2.0
// The memory ledger: what each vGPU has charged on each device, and its quota there. Never one byte
// over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "proto/status.h"

namespace farcall::quota {

// The account beside those of the devices: host memory that is locked on a vGPU's behalf.
inline constexpr int kHostMemory = -1;

struct Usage {
  uint64_t quota_bytes = 0;
  uint64_t charged_bytes = 0;
  // Of it: what others hold unspent, and give back before anyone is refused.
  uint64_t recallable_bytes = 0;
  uint64_t free_bytes() const {  // without asking anyone
    return charged_bytes < quota_bytes ? quota_bytes - charged_bytes : 0;
  }
  uint64_t available_bytes() const {
    uint64_t kept = charged_bytes - std::min(charged_bytes, recallable_bytes);
    return kept < quota_bytes ? quota_bytes - kept : 0;
  }
};

class MemoryLedger;

// Bytes charged; refunds itself. Empty after a move or Release().
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { Refund(); }

  // Gives `bytes` of it back (no more than it holds); returns how many were given back.
  uint64_t RefundSome(uint64_t bytes);
  void Refund() { RefundSome(bytes_); }
  // Moves up to `bytes` of it into a charge of its own.
  Charge Split(uint64_t bytes);
  // Takes `other` in; both are of one vGPU and device.
  void Merge(Charge other);
  uint64_t bytes() const { return bytes_; }

 private:
  friend class MemoryLedger;
  Charge(MemoryLedger* ledger, std::string vgpu, int device, uint64_t bytes)
      : ledger_(ledger), vgpu_(std::move(vgpu)), device_(device), bytes_(bytes) {}

  MemoryLedger* ledger_ = nullptr;
  std::string vgpu_;
  int device_ = 0;
  uint64_t bytes_ = 0;
};

// One ledger for a whole server. Every charge is reserved here before the driver is asked, so what
// all sessions of a vGPU hold together stays within its quota at every instant.
//   Thread  any; must outlive its charges
class MemoryLedger {
 public:
  // Opens or joins the vGPU's account on `device`. The first who opens sets the quota; a later one
  // joins it. The account is closed when the last who opened it has closed it; what is charged then
  // stays until refunded.
  void Open(const std::string& vgpu, int device, uint64_t quota_bytes);
  void Close(const std::string& vgpu, int device);

  // Changes a running quota. Below what is charged, nothing is taken back: further charges are
  // refused.
  Status SetQuota(const std::string& vgpu, int device, uint64_t quota_bytes);

  // Reserves `bytes` or nothing.
  //   Errors  kQuotaExceeded ("device memory: asked .., .. free of .."; "pinned host memory: ..."),
  //           kInvalid (no such account)
  Result<Charge> Reserve(const std::string& vgpu, int device, uint64_t bytes);

  Usage usage(const std::string& vgpu, int device) const;
  uint64_t charged_on_device(int device) const;

 private:
  friend class Charge;
  using Key = std::pair<std::string, int>;
  struct Account {
    Usage usage;
    uint32_t holders = 0;
  };
  void Refund(const std::string& vgpu, int device, uint64_t bytes);
  void DropIfUnused(std::map<Key, Account>::iterator account);

  mutable std::mutex mutex_;
  std::map<Key, Account> accounts_;
};

}  // namespace farcall::quota
