// SPDX-License-Identifier: Apache-2.0
// A pool host's own ledger of claims, the last word on them: what the pool proposes is admitted or
// refused here, and all that is admitted ends here when the pool's authority does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/status.h"
#include "quota/compute_quota.h"

namespace farcall::quota {

struct ClaimGrant {
  std::string claim;
  uint64_t epoch = 0;             // of its placement: only the newest one counts
  std::vector<uint32_t> devices;  // this host's numbers, ascending
  uint64_t memory_bytes = 0;      // on each of them
  uint32_t share_milli = 0, limit_milli = 0;
  uint64_t net_bytes_per_s = 0;  // both directions together; 0: what this host allows
  uint8_t priority = 0;          // as QuotaRequest has it
  uint32_t seats = 1;            // sessions at once
  Ns hold_ns = 0;                // how long it lasts without another answer
  uint64_t quota_revision = 0;   // counts changes of the above but epoch, devices, hold
  bool is_parked = false;        // its memory is to be in host memory, none of it on its devices
};

// What claims may have of a host beside its devices' own memory.
struct ClaimBounds {
  uint64_t net_ceiling = 0;  // bytes a second of the network for each; 0: no bound
  uint64_t park_bytes = 0;   // host memory for those that are parked; 0: none is
  uint32_t oversubscribe_milli = kWholeMilli;  // of a device's memory, what all together may have
};

// Time comes in with every call; it never goes back.
class ClaimLedger {
 public:
  explicit ClaimLedger(std::vector<uint64_t> device_bytes, ClaimBounds bounds = {});

  struct Held {
    ClaimGrant grant;
    Ns until = 0;                      // the pool's word lasts till then
    uint32_t sessions = 0;             // seats taken
    bool is_ending = false;            // waits for its sessions to end; opens no more
    std::optional<ClaimGrant> wanted;  // a change under way; the larger of both counts
    uint64_t refused_revision = 0;     // the last that could not be, and why
    std::string change_refused;
    bool is_parking = false;   // on its way off its devices, which it has until it is
    bool is_parked = false;    // it has none of its devices, and opens no sessions
    std::string park_refused;  // why it is not as its grant says

    uint64_t bytes() const { return Most(&ClaimGrant::memory_bytes); }
    uint32_t milli() const { return Most(&ClaimGrant::share_milli); }

   private:
    template <typename T>
    T Most(T ClaimGrant::*field) const {
      return wanted ? std::max(grant.*field, (*wanted).*field) : grant.*field;
    }
  };

  // The host is about to report: from now on only answers to this report count.
  void Beat(uint64_t beat, Ns now);
  // The pool's answer: all that is granted. What is absent ends; claims that must be ended now are
  // returned (their sessions are the caller's to end).
  //   number  of this answer among those to the report, from 1: what the pool decides later it
  //           tells at once
  //   Errors  kRefused (an older controller's, with both terms), kInvalid (the answer to another
  //           report than the last, or one that a later answer has overtaken)
  Result<std::vector<std::string>> Answer(uint64_t beat, uint64_t number, uint64_t term,
                                          const std::vector<ClaimGrant>& grants, Ns now);
  // Changes that the last answers brought and that there is room for: the caller makes them good,
  // and says how it went ("": well) by FinishChange. Until then sessions get what was in force.
  std::vector<std::string> TakeChanges();
  void FinishChange(const std::string& claim, uint64_t revision, const std::string& refused);
  // Claims that are to leave their devices or have them again: the caller sees to it, and says of
  // those that leave how it went ("": nothing is there any more) by FinishParking. One that has its
  // devices again has them at once.
  struct Parking {
    std::string claim;
    bool leaves = false;
  };
  std::vector<Parking> TakeParkings();
  void FinishParking(const std::string& claim, const std::string& refused);
  // Claims whose word is over; their sessions are to be ended.
  std::vector<std::string> Expire(Ns now);
  // When Expire has something to do next; a far time if never.
  Ns ExpiresAt() const;

  // A session of the claim, by a lease of that epoch.
  //   Errors  kRefused (one line)
  Status OpenSeat(const std::string& claim, uint64_t epoch, Ns now);
  void CloseSeat(const std::string& claim);

  const std::map<std::string, Held>& held() const { return held_; }
  // What the last answer wanted and did not get: claim -> (epoch, why).
  struct Refusal {
    uint64_t epoch = 0;
    std::string why;
  };
  const std::map<std::string, Refusal>& refused() const { return refused_; }
  uint64_t term() const { return term_; }
  // Of host memory, what parked claims have or are about to have: all that they may hold.
  uint64_t parked_bytes() const;
  // Admitted on the device.
  uint64_t memory_on(uint32_t device) const;
  uint32_t share_on(uint32_t device) const;

 private:
  Status Judge(const ClaimGrant& grant) const;
  // `but_not`: whose own place is free for it.
  Status CheckValues(const ClaimGrant& grant) const;
  Status CheckRoom(const ClaimGrant& grant, uint32_t device, const Held* but_not) const;
  void Propose(Held& held, const ClaimGrant& grant);
  void Park(Held& held, bool is_wanted);
  bool End(std::map<std::string, Held>::iterator held);

  const std::vector<uint64_t> device_bytes_;
  const ClaimBounds bounds_;
  std::map<std::string, Held> held_;
  std::map<std::string, Refusal> refused_;
  std::vector<std::string> changes_;
  std::vector<Parking> parkings_;
  std::map<std::string, uint64_t> newest_;  // of claims that were here: nothing older opens again
  uint64_t term_ = 0, beat_ = 0;
  uint64_t answer_ = 0;  // the latest to that report
  Ns beat_at_ = 0;
};

}  // namespace farcall::quota
