// SPDX-License-Identifier: Apache-2.0
// A pool host's own ledger of claims, the last word on them: what the pool proposes is admitted or
// refused here, and all that is admitted ends here when the pool's authority does.
#pragma once

#include <cstdint>
#include <map>
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
  uint8_t priority = 0;  // as QuotaRequest has it
  uint32_t seats = 1;    // sessions at once
  Ns hold_ns = 0;        // how long it lasts without another answer
};

// Time comes in with every call; it never goes back.
class ClaimLedger {
 public:
  explicit ClaimLedger(std::vector<uint64_t> device_bytes);

  struct Held {
    ClaimGrant grant;
    Ns until = 0;            // the pool's word lasts till then
    uint32_t sessions = 0;   // seats taken
    bool is_ending = false;  // waits for its sessions to end; opens no more
  };

  // The host is about to report: from now on only the answer to this report counts.
  void Beat(uint64_t beat, Ns now);
  // The pool's answer: all that is granted. What is absent ends; claims that must be ended now are
  // returned (their sessions are the caller's to end).
  //   Errors  kRefused (an older controller's, with both terms), kInvalid (the answer to another
  //           report than the last, or a second one)
  Result<std::vector<std::string>> Answer(uint64_t beat, uint64_t term,
                                          const std::vector<ClaimGrant>& grants, Ns now);
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
  // Admitted on the device.
  uint64_t memory_on(uint32_t device) const;
  uint32_t share_on(uint32_t device) const;

 private:
  Status Judge(const ClaimGrant& grant) const;
  bool End(std::map<std::string, Held>::iterator held);

  const std::vector<uint64_t> device_bytes_;
  std::map<std::string, Held> held_;
  std::map<std::string, Refusal> refused_;
  std::map<std::string, uint64_t> newest_;  // of claims that were here: nothing older opens again
  uint64_t term_ = 0, beat_ = 0;
  Ns beat_at_ = 0;
  bool awaits_answer_ = false;
};

}  // namespace farcall::quota
