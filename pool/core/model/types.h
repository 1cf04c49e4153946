// SPDX-License-Identifier: Apache-2.0
// What the pool's core knows: hosts with their GPUs, claims on them. Times are milliseconds of the
// injected clock, shares thousandths of a GPU.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool/core/model/placers.h"
#include "pool/core/model/selector.h"
#include "settings/milli.h"

namespace farcall::pool {

using Ms = int64_t;
inline constexpr Ms kNever = std::numeric_limits<Ms>::max();
// Saturates.
constexpr Ms After(Ms from, Ms wait) {
  return wait > kNever - from ? kNever : from + wait;
}

enum class ClaimState : uint8_t {
  kPending,     // waits for a place; holds nothing
  kReserved,    // placed; its host has not accepted yet
  kBound,       // its host has accepted; no session yet
  kActive,      // a session runs
  kIdle,        // the last session has ended
  kPreempting,  // asked to leave for another claim; its sessions go on until the grace is over
  kParked,      // off its GPUs, its memory in its host's memory; waits for the same GPUs
  kReleasing,   // on its way out; capacity is held until the host confirms
  kReleased,
  kExpired,
  kFailed,
};
inline constexpr size_t kClaimStates = 11;

enum class HostState : uint8_t { kJoining, kReady, kDraining, kDrained, kSuspect, kLost };
inline constexpr size_t kHostStates = 6;

// Of a claim; as Ask has them.
struct Size {
  uint32_t count = 1;
  uint64_t memory_bytes = 0;
  uint32_t share_milli = 0;
  std::string model;
  uint32_t gflops = 0;
  bool operator==(const Size&) const = default;
};
inline constexpr size_t kMaxSizes = 8;

// What is asked for. Zeros: see each.
struct Ask {
  uint32_t count = 1;            // GPUs, all of one host
  uint64_t memory_bytes = 0;     // on each; 0: a whole GPU that nobody else is on
  uint32_t share_milli = 0;      // guaranteed; 0: none
  uint32_t gflops = 0;           // thousandths of TFLOPS, instead of a share; 0: none
  uint32_t limit_milli = 0;      // cap; 0: none
  uint64_t net_bytes_per_s = 0;  // both directions together; 0: what its host allows
  uint8_t priority = 0;  // class of device time, as QuotaRequest has it: 0 normal, 1 high, 2 low
  int32_t queue_priority = 0;  // the higher is placed first, whenever it came
  bool preemptible = false;    // claims of a higher queue priority may have its place
  std::string project;         // whose quota it counts against; empty: the default one
  std::string model;           // part of the GPU's name; empty: any
  std::string host;            // this one only; empty: any
  Selector selector;           // of hosts, by their labels, and of GPUs
  Labels labels;            // for people and programs; the pool makes nothing of them but of `zone`
  int64_t begin_unix = 0;   // seconds; it waits in no queue before; 0: at once, or has begun
  std::string reservation;  // on its GPUs alone; empty: on none that is reserved
  std::string group;        // on its hosts alone; empty: the default one's
  Placer placer = Placer::kPack;
  // Alternatives, the first of them before the others: `choice` is the one whose numbers are above.
  // None: there is no other than that.
  std::vector<Size> sizes;
  uint32_t choice = 0;
  uint32_t seats = 64;            // sessions at once
  Ms queue_ms = 0;                // how long to wait for a place; 0: for ever
  Ms lifetime_ms = 0;             // from the request, or its begin; 0: no end
  Ms on_disconnect_ms = 0;        // how long without a session; 0: as long as it is renewed
  Ms hold_ms = 24 * 3600 * 1000;  // how long its host carries on without the pool
  bool operator==(const Ask&) const = default;

  uint32_t choices() const { return sizes.empty() ? 1 : static_cast<uint32_t>(sizes.size()); }
  // Has the numbers of that alternative.
  void Choose(uint32_t which);
};

inline constexpr int32_t kMaxQueuePriority = 1000;  // and as low as its negative

// A place in the queue. Less: placed before.
struct Rank {
  int32_t queue_priority = 0;
  uint64_t turn = 0;
  bool operator==(const Rank&) const = default;
  bool operator<(const Rank& other) const {
    return queue_priority != other.queue_priority ? queue_priority > other.queue_priority
                                                  : turn < other.turn;
  }
};

inline constexpr uint32_t kMaxGang = 256;

inline constexpr Rank kFirstRank = {std::numeric_limits<int32_t>::max(), 0};  // before all claims

struct Claim {
  std::string id;
  std::string tenant;           // whose token made it; empty: the pool's own, or none was wanted
  std::string owner;            // for people
  std::string idempotency_key;  // its tenant asks for it again under it: this is the answer
  Ask ask;
  ClaimState state = ClaimState::kPending;
  ClaimState final_state = ClaimState::kReleased;  // of kReleasing: what it becomes
  bool requeues = false;                           // of kReleasing: it becomes kPending instead
  std::string reason;                              // why it is in its state, if there is a why
  uint64_t epoch = 0;                              // +1 by each placement
  std::string host;                                // empty: none
  std::vector<uint32_t> devices;                   // of that host
  uint64_t memory_bytes = 0;                       // on each of them
  uint32_t share_milli = 0;                        // the same; 0: it has no place
  uint64_t quota_revision = 0;                     // +1 by each change of what was asked
  std::string gang;  // it has its place with the others of this gang, or none; empty: alone
  uint32_t member = 0, gang_size = 0;  // its number there, from 0, and how many there are
  // While its host has not said yes to a change: what is in force there. The larger of both counts.
  struct Before {
    Ask ask;
    uint64_t memory_bytes = 0;
    uint32_t share_milli = 0;
  };
  std::optional<Before> before;
  bool is_parked = false;  // of kParked, and of kReleasing after it
  uint64_t revision = 0;
  uint64_t order = 0;        // when it came
  uint64_t turn = 0;         // its place among its queue priority, where projects do not say
  int64_t created_unix = 0;  // seconds; for people
  // Not stored: counted anew by a new controller.
  Ms created = 0, since = 0, renewed = 0;
  Ms granted_until = 0;  // till then the host may hold it, whatever else is heard
  bool was_granted = false;
  uint32_t sessions = 0;
  bool is_accepted = false;  // of kReserved, in a gang: by its host, which the others wait for
  // Of kPreempting, after the grace: when its host has to have parked it; 0: it was not asked to.
  Ms park_by = 0;
  bool is_out = false;        // its host has; in a gang the others are waited for
  Ms placed = 0;              // when its host had accepted it
  std::string preempted_by;   // of kPreempting: the claim that it leaves for
  bool is_reclaimed = false;  // and for the sake of that one's quota
  // Of kPending, while a place is looked for: models of which its project may have no more.
  std::vector<std::string> shut_models;
  // Of one for TFLOPS, whose share its GPUs decide: what that may be, by its projects' bounds.
  struct ShareCap {
    std::string model;  // on GPUs of it alone; empty: on all
    uint64_t milli = 0;
  };
  std::vector<ShareCap> share_caps;
  bool is_early = false;          // of kPending: its begin has not come
  uint64_t reservation = 0;       // the number of the one it names; 0: none
  Ms ends = kNever;               // by its lifetime
  std::set<std::string> avoid;    // hosts whose ledger refused it
  uint64_t refused_revision = 0;  // the last change that its host refused, and its words
  std::string change_refused;

  Rank rank() const { return {ask.queue_priority, turn}; }
  // Claims that are placed with it, itself among them.
  uint32_t members() const { return gang.empty() ? 1 : gang_size; }
  // Of its host's memory, while it is parked.
  uint64_t slab_bytes() const { return memory_bytes * devices.size(); }
  uint64_t held_bytes() const { return std::max(memory_bytes, before ? before->memory_bytes : 0); }
  uint32_t held_milli() const { return std::max(share_milli, before ? before->share_milli : 0); }
  bool is_exclusive() const {
    return ask.memory_bytes == 0 || (before && before->ask.memory_bytes == 0);
  }
};

// What claims hold of a GPU.
struct GpuUse {
  uint64_t used_bytes = 0;
  uint32_t used_milli = 0;
  uint32_t claims = 0, exclusive = 0;
};

struct Gpu : GpuUse {
  std::string name, uuid;
  uint64_t memory_bytes = 0;
  uint64_t extra_bytes = 0;  // that its group lends beyond them
  uint32_t gflops = 0;       // by its group's table of models; 0: its model is not in it
  // As its host reports them.
  std::optional<uint32_t> numa_node, nvlink_group;
  uint32_t link = 0, node = 0;  // its NVLink group's and NUMA node's number; 0: not known
  // Kept for a claim that waits long, or for which others leave: what claims behind it may have
  // meanwhile.
  std::optional<Rank> kept_for;
  bool is_kept_strictly = false;  // from all others of that queue priority, and lower ones
  uint64_t guest_bytes = 0;
  uint32_t guest_milli = 0;
  uint64_t reserved = 0;  // the number of the reservation that has it, or will next; 0: none
  Ms reserved_from = 0;   // its begin; 0: it has begun
  // What claims may have together; each has memory_bytes at most.
  uint64_t lendable_bytes() const { return memory_bytes + extra_bytes; }
  uint64_t free_bytes() const { return FreeBytes(*this); }
  uint64_t FreeBytes(const GpuUse& use) const {
    return lendable_bytes() - std::min(lendable_bytes(), use.used_bytes);
  }
  uint32_t free_milli() const { return used_milli < kWholeMilli ? kWholeMilli - used_milli : 0; }
};

struct Host {
  std::string name;
  uint64_t incarnation = 0;  // of its server: a later one is greater
  uint64_t instance = 0;     // the same, as the store knows it while the host has not reported yet
  uint64_t beat = 0;         // the last that was heard
  uint64_t answers = 0;      // to it, so far
  std::vector<std::string> endpoints;
  HostState state = HostState::kJoining;
  bool drains = false, is_cordoned = false;  // somebody asked for it
  bool is_ending = false;                    // its server tells so, which a new one does not
  std::string reason;                        // of what it is, if there is one
  Labels labels;                             // the operator's
  std::string group;                         // empty: the default one. Not stored
  std::vector<Gpu> gpus;
  uint64_t net_ceiling = 0;   // bytes a second of the network that a claim may have; 0: no bound
  uint64_t park_bytes = 0;    // of its memory, what parked claims may have; 0: it parks none
  uint64_t parked_bytes = 0;  // what they have
  uint32_t oversubscribe_milli = kWholeMilli;  // of its GPUs' memory, what it lends at most
  uint64_t revision = 0;
  bool is_connected = false;
  Ms heard = 0, suspect_since = 0;
  uint32_t refusals = 0;         // of its ledger, one after the other
  uint32_t adopted = 0;          // claims that it told of and nobody here knew
  std::string credential;        // the hash of what its agent shows; empty: it never joined by one
  std::set<std::string> claims;  // that are held here
  // What no GPU has more of, so that full hosts are passed over; not known: the most there can be.
  uint64_t most_free_bytes = UINT64_MAX;
  uint32_t most_free_milli = UINT32_MAX, empty_gpus = UINT32_MAX;
  void Summarise();
  // Numbers the groups of its GPUs that are close to each other, by its labels and its report.
  void Arrange();
  // Whether it takes no more claims.
  bool is_closed() const { return drains || is_cordoned || is_ending; }
};

// Lets hosts in. Its key among others is the hash of the token.
struct JoinToken {
  std::string host;          // the name it is for, also one that is taken; empty: a new one
  int64_t expires_unix = 0;  // seconds
  uint32_t max_uses = 1, uses = 0;
  int64_t created_unix = 0;
  std::string made_by = {}, note = {};  // for people
};

// What people call a join token: enough of its hash that nobody can find the token by it.
inline std::string IdOfJoinToken(const std::string& hash) {
  return "j-" + hash.substr(0, 12);
}

// Whether a claim may have so much of the network there.
inline bool AllowsNet(const Host& host, const Ask& ask) {
  return host.net_ceiling == 0 || ask.net_bytes_per_s <= host.net_ceiling;
}

// What a host tells in a heartbeat.
struct ReportedClaim {
  std::string claim;
  uint64_t epoch = 0;
  uint32_t sessions = 0;
  bool is_ending = false;
  std::string refused;            // its ledger's words; empty: it holds the claim
  uint64_t quota_revision = 0;    // the change that is in force
  uint64_t refused_revision = 0;  // a change it refused, and why
  std::string change_refused;
  // For a controller that does not know it.
  std::vector<uint32_t> devices;
  uint64_t memory_bytes = 0;
  uint32_t share_milli = 0, limit_milli = 0;
  uint8_t priority = 0;
  uint32_t seats = 0;
  uint64_t net_bytes_per_s = 0;
  bool is_parked = false;    // nothing of it is on its devices
  std::string park_refused;  // why it is not as the grant wants it
};
struct HostReport {
  std::string host;
  uint64_t incarnation = 0;
  uint64_t beat = 0;
  bool is_draining = false;
  std::vector<std::string> endpoints;
  Labels labels;  // the operator's
  std::vector<Gpu> gpus;
  uint64_t net_ceiling = 0, park_bytes = 0;    // as Host has them
  uint32_t oversubscribe_milli = kWholeMilli;  // the same
  std::vector<ReportedClaim> claims;
};

// What a host may do with a claim, in the answer to its heartbeat.
struct Grant {
  std::string claim;
  uint64_t epoch = 0;
  std::vector<uint32_t> devices;
  uint64_t memory_bytes = 0;
  uint32_t share_milli = 0, limit_milli = 0;
  uint8_t priority = 0;
  uint32_t seats = 0;
  Ms hold_ms = 0;
  uint64_t quota_revision = 0;
  uint64_t net_bytes_per_s = 0;
  bool is_parked = false;  // its memory is to leave its devices; false: it is to come back
};

// What the claim's TFLOPS, or its share, come to of that GPU's time, rounded up. More than
// kWholeMilli: the GPU is too slow, or its TFLOPS are not known.
inline uint32_t ShareOn(const Gpu& gpu, uint32_t gflops, uint32_t share_milli) {
  if (gflops == 0) return share_milli;
  const uint64_t milli =
      gpu.gflops == 0 ? UINT64_MAX : (uint64_t{gflops} * kWholeMilli + gpu.gflops - 1) / gpu.gflops;
  return static_cast<uint32_t>(std::min<uint64_t>(milli, kWholeMilli + 1));
}
inline uint32_t ShareOn(const Gpu& gpu, const Ask& ask) {
  return ShareOn(gpu, ask.gflops, ask.share_milli);
}
// The most on any of these, which a claim finds equally fast.
uint32_t ShareOn(const Host& host, const std::vector<uint32_t>& devices, const Ask& ask);
// What the claim needs of that GPU: one that is parked has its share already.
inline uint32_t NeededShare(const Gpu& gpu, const Claim& claim) {
  return claim.state == ClaimState::kParked ? claim.share_milli : ShareOn(gpu, claim.ask);
}

// What a host may be called: 1 to 64 letters, digits and . _ -
bool IsHostName(std::string_view name);
// What cannot be, whatever hosts there are, and the field; "": nothing.
std::pair<std::string, std::string> FaultOf(const Ask& ask);
std::string_view ToText(ClaimState state);
std::string_view ToText(HostState state);
// The tables of docs/internals/pool.md.
bool MayBecome(ClaimState from, ClaimState to);
bool MayBecome(HostState from, HostState to);
inline bool IsOver(ClaimState state) {
  return state == ClaimState::kReleased || state == ClaimState::kExpired ||
         state == ClaimState::kFailed;
}
inline bool HasHost(ClaimState state) {
  return state != ClaimState::kPending && !IsOver(state);
}
inline bool HoldsCapacity(ClaimState state) {
  return HasHost(state) && state != ClaimState::kParked;
}
// Of GPUs; a parked one that is on its way out has none.
inline bool HoldsGpus(const Claim& claim) {
  return HasHost(claim.state) && !claim.is_parked;
}
inline bool IsGranted(ClaimState state) {
  return HasHost(state) && state != ClaimState::kReleasing;
}
inline bool WaitsForPlace(ClaimState state) {
  return state == ClaimState::kPending || state == ClaimState::kParked;
}

}  // namespace farcall::pool
