// SPDX-License-Identifier: Apache-2.0
// Who changed what, when and from where: a chain of hashes in the pool's store. A changed, removed
// or reordered entry breaks it, for everybody but whoever writes the whole chain anew: who wants to
// be sure of that keeps the newest hash elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "pool/store/store.h"

namespace farcall::pool {

struct AuditEntry {
  int64_t time_ms = 0;  // since 1970
  std::string actor;    // a user's name, "the operator", a tenant
  std::string token;    // its id; empty: of a file, or none
  std::string source;   // address of the peer
  std::string verb;     // as pool/access/access.cc has it
  std::string object;   // whose name or id
  std::string detail;   // the request; never a secret
  int status = 200;     // 403: refused
};

// An entry's number, and the hash that its next one begins with.
struct AuditPoint {
  uint64_t number = 0;
  std::string hash;
};

// Of an entry as JSON, without its own hash.
std::string AuditHash(const std::string& previous, const nlohmann::json& entry);

// Looks at all entries in order.
class AuditVerifier {
 public:
  // `before`: what was there before the oldest that is kept.
  explicit AuditVerifier(AuditPoint before) : last_(std::move(before)) {}
  // One line, or "": it is the one that follows. `key`: of its row.
  std::string Next(uint64_t key, const nlohmann::json& entry);
  // Whether the last one was the newest.
  std::string End(const AuditPoint& newest) const;
  const AuditPoint& last() const { return last_; }

 private:
  AuditPoint last_;
};

// What goes into the store with the next commit.
class AuditLog {
 public:
  static constexpr uint64_t kMaxKept = 100'000, kTrim = 1000;
  static constexpr size_t kMaxPending = 10'000;

  // As the store has them.
  void Load(AuditPoint before, AuditPoint newest);
  //   Thread  any
  void Add(AuditEntry entry);

  // The controller's thread alone. Writes may be asked again until Stored.
  void Writes(Store& store, Batch* batch);
  void Stored();
  const AuditPoint& before() const { return before_; }
  const AuditPoint& newest() const { return newest_; }

 private:
  bool TakeRefused(int64_t now_ms);

  std::mutex mutex_;
  std::deque<AuditEntry> pending_;
  uint64_t lost_ = 0;            // that had no room, or were one refusal too many
  int64_t refused_paid_ms_ = 0;  // each refusal costs a second, and a minute may be borrowed
  size_t written_ = 0;           // of `pending_`, by the last Writes
  uint64_t written_lost_ = 0;
  AuditPoint before_, newest_, next_before_, next_newest_;
};

}  // namespace farcall::pool
