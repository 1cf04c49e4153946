// SPDX-License-Identifier: Apache-2.0
// What each verb asks of its caller: the one table that REST, gRPC and pool:// look into.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pool/access/callers.h"

namespace farcall::pool {

enum class LetsIn : uint8_t {
  kRole,     // who has the role
  kCallers,  // whoever shows something good
  kAnybody,  // also who shows nothing
};

struct Rule {
  std::string_view verb;
  std::string_view rest;  // method and path; empty: REST has no such verb
  std::string_view grpc;  // service and method; likewise
  Role least;             // that its caller needs in some project, and in that of its claim
  Role others;            // that it needs in the project of a claim that is another's
  LetsIn lets_in = LetsIn::kRole;
  bool by_claim_token = false;  // whether a token that is bound to a claim may, to that claim
};

std::span<const Rule> Rules();
// Of a row's `rest`, `grpc` or `verb`. What has no row is the operator's.
const Rule& RuleOf(std::string_view name);

// Whether the audit tells of it: what changes something, but for what programs do all the time.
bool IsAudited(const Rule& rule);

// Whether the caller may do it to what is its own; else `why`, one line.
//   Thread  any
bool May(const Caller& caller, const Rule& rule, std::string* why);
// Whether it may do it to that claim, of that tenant and project.
bool MayTo(const Caller& caller, const Rule& rule, const std::string& claim,
           const std::string& tenant, std::string_view project);

}  // namespace farcall::pool
