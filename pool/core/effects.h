// SPDX-License-Identifier: Apache-2.0
// What follows from an event: what is to be stored, and who is then to be told what.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/core/model/accounts.h"
#include "pool/core/model/types.h"

namespace farcall::pool {

enum class RefusalCode : uint8_t {
  kInvalid,
  kDenied,
  kNotFound,
  kConflict,
  kTooMany,
  kUnavailable
};
struct Refusal {
  RefusalCode code = RefusalCode::kInvalid;
  std::string message, field, hint;
};
struct Answer {
  uint64_t incarnation = 0, beat = 0, number = 0;
  std::vector<Grant> grants;
  std::map<std::string, std::string> ended;  // let go though nobody released them, and why
};
struct LogEntry {  // a line of /v1/events
  std::string kind, claim, host, text;
  std::string tenant = "";  // of the claim
};
struct ConfigChange {
  struct Field {
    std::string name, before, after;  // "": none
  };
  std::string kind, name, action;  // project, group, user, host; create, change, none
  std::vector<Field> fields;
};
struct Effects {
  std::set<std::string> claims, hosts;                   // to be stored
  std::map<std::string, std::string> erased_claims;      // no longer; and their tenants
  std::set<std::string> join_tokens;                     // to be stored, or no longer
  std::set<std::string> projects, reservations, groups;  // the same
  AccountChanges accounts;
  // Changed by what a host has told and will tell again: may be stored later.
  std::set<std::string> notified_claims;
  // Changed in what is not stored.
  std::set<std::string> shown_claims, shown_hosts;
  std::optional<Answer> answer;  // to the report, after the store
  // What hosts are told before their next report, after the store: more answers to the last one.
  std::map<std::string, Answer> pushes;
  std::string claim;            // of a request: its id, which may be an older one's
  uint64_t quota_revision = 0;  // of a change that its host is to accept: its number
  std::optional<Refusal> refusal;
  std::vector<LogEntry> log_entries;
  std::vector<ConfigChange> config;  // of ApplyConfig: one for each object
};

}  // namespace farcall::pool
