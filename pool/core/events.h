// SPDX-License-Identifier: Apache-2.0
// What happens to the pool: each event is one thing asked or told, and Core::Apply takes one at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "pool/core/model/accounts.h"
#include "pool/core/model/group.h"
#include "pool/core/model/project.h"
#include "pool/core/model/reservation.h"
#include "pool/core/model/types.h"

namespace farcall::pool {

struct RequestClaim {
  std::string id, tenant, owner, idempotency_key;
  Ask ask;
  int64_t now_unix = 0;
  // The key is a run's: whatever it asks for, it has one claim, and a new one after that is over.
  bool is_run = false;
  // Of a gang, whose name is `id`: its members are claims ID-0, ID-1, ... 0: a claim alone.
  uint32_t members = 0;
};
// `by`, of these three: the tenant who asks, for whom others' claims do not exist; nullopt: may
// all.
struct ReleaseClaim {
  std::string id, reason;
  std::optional<uint64_t> if_revision;
  std::optional<std::string> by = std::nullopt;
};
struct RenewClaim {
  std::string id;
  std::optional<std::string> by = std::nullopt;
};
// Of a claim that waits or is held: what is not given stays. Its host has the last word.
struct ChangeClaim {
  std::string id;
  std::optional<std::string> by;
  std::optional<uint64_t> if_revision;
  std::optional<uint64_t> memory_bytes, net_bytes_per_s;
  std::optional<uint32_t> share_milli, limit_milli, seats;
  std::optional<uint8_t> priority;
  std::optional<int32_t> queue_priority;
  std::optional<bool> preemptible;
  std::optional<Ms> lifetime_ms;
};
// Makes the project, or replaces it.
struct SetProject {
  Project project;
  std::optional<uint64_t> if_revision;  // 0: only if it is not there yet
};
struct DeleteProject {
  std::string name;
  std::optional<uint64_t> if_revision;
};
// Makes the group, or replaces it.
struct SetGroup {
  Group group;
  std::optional<uint64_t> if_revision;  // 0: only if it is not there yet
};
struct DeleteGroup {
  std::string name;
  std::optional<uint64_t> if_revision;
};
// HostReport: types.h
struct HostClosed {  // its stream has ended
  std::string host;
  uint64_t incarnation = 0;
};
struct MakeJoinToken {
  std::string hash;
  JoinToken token;
  int64_t now_unix = 0;
};
struct RevokeJoinToken {
  std::string id;
  int64_t now_unix = 0;
};
// A host shows a token, and from then on what has this hash.
struct JoinHost {
  std::string host, credential;
  std::string token_hash;  // empty: it knows the pool's lasting join token
  int64_t now_unix = 0;
};
struct SetHost {
  enum class Verb : uint8_t { kDrain, kCordon, kUncordon };
  std::string host;
  Verb verb = Verb::kDrain;
  std::optional<uint64_t> if_revision;
};
// Its GPUs are chosen then and there: such as no claim needs from its begin on.
struct MakeReservation {
  Reservation reservation;
  int64_t now_unix = 0;
};
struct EndReservation {
  std::string name;
};
struct SetLabels {
  std::string host;
  Labels labels;  // instead of those that it has
  std::optional<uint64_t> if_revision;
};
// Makes what is declared of what there is: all of it or, if any of it cannot be, nothing. What is
// not named stays.
struct ApplyConfig {
  std::vector<Project> projects;
  std::vector<User> users;  // with all of their roles; `tenant` is for those that are new
  std::map<std::string, Labels> hosts;
  bool is_dry_run = false;  // tells the difference alone
  int64_t now_unix = 0;
  std::vector<Group> groups;
};
// These hosts were answered, with what they had been granted before, while nothing could be stored.
struct Regranted {
  std::set<std::string> hosts;
};
// Of the clock. What is to begin or end at a time of day does when it is told.
struct Tick {
  int64_t unix_ms = 0;  // since 1970; 0: not told
};
using Event = std::variant<RequestClaim, ReleaseClaim, RenewClaim, ChangeClaim, HostReport,
                           HostClosed, MakeJoinToken, RevokeJoinToken, JoinHost, MakeReservation,
                           EndReservation, SetHost, SetProject, DeleteProject, SetGroup,
                           DeleteGroup, SetLabels, ApplyConfig, AccountEvent, Regranted, Tick>;

}  // namespace farcall::pool
