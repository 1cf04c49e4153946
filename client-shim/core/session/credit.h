// SPDX-License-Identifier: Apache-2.0
// Backed credit: device memory the server has mapped and charged, handed out here without asking.
// Freed blocks wait in quarantine until the server says that what was submitted before the free has
// completed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "client-shim/core/memory/node_allocator.h"
#include "proto/wire.h"
#include "transport/sync.h"

namespace farcall::client {

class Session;

inline constexpr uint64_t kAllocationAlign = 512;

struct CreditRange {
  int32_t device = 0;  // as the server counts
  uint64_t base = 0;
  uint64_t bytes = 0;
};

class Credit {
 public:
  void SetWindow(const Window& window);
  bool has_window() const { return window_.bytes != 0; }
  const Window& window() const { return window_; }

  // False: outside the window, empty or overlapping a grant.
  bool AddGrant(int32_t device, uint64_t base, uint64_t bytes);
  // The smallest free range that holds `bytes` (a multiple of kAllocationAlign); 0 = none.
  uint64_t Take(int32_t device, uint64_t bytes);
  // The range from `base` on, if all of it is free; 0 if not.
  uint64_t TakeAt(int32_t device, uint64_t base, uint64_t bytes);
  // Unused after all.
  void GiveBack(const CreditRange& range);
  void Quarantine(uint16_t context, uint64_t epoch, const CreditRange& range);
  void Freed(uint16_t context, uint64_t epoch);

  uint64_t FreeBytes(int32_t device);
  uint64_t QuarantinedBytes(int32_t device);
  // Of the contexts whose slot is `from` or more and that hold some of the device's bytes in
  // quarantine, the first, and the last epoch of it there.
  struct Quarantined {
    uint16_t context;
    uint64_t epoch;
    bool operator==(const Quarantined&) const = default;
  };
  std::optional<Quarantined> NextQuarantined(int32_t device, uint32_t from);
  // Removes up to `bytes` of whole free chunks, to go back to the server.
  std::vector<CreditRange> TakeForReturn(int32_t device, uint64_t bytes);
  // What TakeForReturn would remove at most.
  uint64_t ReturnableBytes(int32_t device);
  // How often it removed anything.
  uint64_t returns();

 private:
  using Range = std::pair<uint64_t, uint64_t>;
  using ByBase =
      std::map<uint64_t, uint64_t, std::less<>, NodeAllocator<std::pair<const uint64_t, uint64_t>>>;
  using BySize = std::set<Range, std::less<>, NodeAllocator<Range>>;  // {bytes, base}
  struct Pool {
    ByBase by_base;
    BySize by_size;
  };
  struct Waiting {
    uint16_t context;
    uint64_t epoch;
    CreditRange range;
  };
  void InsertLocked(const CreditRange& range);
  void EraseLocked(Pool& pool, ByBase::iterator at);

  Mutex mutex_;
  Window window_;
  std::map<uint64_t, uint64_t> granted_;
  std::map<int32_t, Pool> pools_;
  std::vector<Waiting> waiting_;
  uint64_t returns_ = 0;
};

// Of the server that the calling thread's present call goes to; leaked.
Credit& DeviceCredit();

// Answers kRecall: whole free chunks go back, at most `bytes`.
//   Thread  the one that pumps: posts without touching the socket
void ReturnCredit(Session* session, int32_t device, uint64_t bytes);

}  // namespace farcall::client
