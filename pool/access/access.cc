// SPDX-License-Identifier: Apache-2.0
#include "pool/access/access.h"

#include <algorithm>

namespace farcall::pool {

namespace {

using enum Role;
using enum LetsIn;

constexpr Rule kOperators = {"", "", "", kOperator, kOperator};

constexpr Rule kRules[] = {
    {"claims.request", "POST /v1/claims", "Claims.Request", kUser, kOperator},
    {"claims.list", "GET /v1/claims", "Claims.List", kViewer, kViewer},
    {"claims.watch", "GET /v1/claims?watch=1", "Claims.Watch", kViewer, kViewer},
    {"claims.plan", "POST /v1/claims:plan", "Claims.Plan", kViewer, kViewer},
    {"claims.get", "GET /v1/claims/{id}", "Claims.Get", kViewer, kViewer},
    {"claims.update", "PATCH /v1/claims/{id}", "Claims.Update", kUser, kAdmin},
    // Whoever has lost its role may still give back what it holds.
    {"claims.release", "DELETE /v1/claims/{id}", "Claims.Release", kNone, kAdmin, kCallers},
    {"claims.renew", "POST /v1/claims/{id}:renew", "Claims.Renew", kUser, kAdmin},
    {"claims.explain", "POST /v1/claims/{id}:explain", "Claims.Explain", kViewer, kViewer},
    {"claims.connect", "POST /v1/claims/{id}:connect", "Claims.Connect", kUser, kAdmin,
     LetsIn::kRole, true},
    {"gangs.request", "POST /v1/gangs", "Gangs.Request", kUser, kOperator},
    {"gangs.plan", "POST /v1/gangs:plan", "Gangs.Plan", kViewer, kViewer},
    {"gangs.get", "GET /v1/gangs/{id}", "Gangs.Get", kViewer, kViewer},
    {"gangs.release", "DELETE /v1/gangs/{id}", "Gangs.Release", kNone, kAdmin, kCallers},
    {"queue.list", "GET /v1/queue", "Claims.ListQueue", kViewer, kViewer},
    {"projects.list", "GET /v1/projects", "Projects.List", kViewer, kViewer},
    {"projects.get", "GET /v1/projects/{project}", "Projects.Get", kViewer, kViewer},
    {"projects.set", "PUT /v1/projects/{project}", "Projects.Set", kOperator, kOperator},
    {"projects.delete", "DELETE /v1/projects/{project}", "Projects.Delete", kOperator, kOperator},
    {"groups.list", "GET /v1/groups", "Groups.List", kViewer, kViewer},
    {"groups.get", "GET /v1/groups/{id}", "Groups.Get", kViewer, kViewer},
    {"groups.set", "PUT /v1/groups/{id}", "Groups.Set", kOperator, kOperator},
    {"groups.delete", "DELETE /v1/groups/{id}", "Groups.Delete", kOperator, kOperator},
    {"hosts.list", "GET /v1/hosts", "Hosts.List", kViewer, kViewer},
    {"hosts.watch", "GET /v1/hosts?watch=1", "Hosts.Watch", kViewer, kViewer},
    {"gpus.list", "GET /v1/gpus", "", kViewer, kViewer},
    {"hosts.status", "GET /v1/sessions", "Hosts.Status", kViewer, kViewer},
    {"hosts.drain", "POST /v1/hosts/{id}:drain", "Hosts.Drain", kOperator, kOperator},
    {"hosts.cordon", "POST /v1/hosts/{id}:cordon", "Hosts.Cordon", kOperator, kOperator},
    {"hosts.uncordon", "POST /v1/hosts/{id}:uncordon", "Hosts.Uncordon", kOperator, kOperator},
    {"hosts.label", "PUT /v1/hosts/{id}/labels", "Hosts.SetLabels", kOperator, kOperator},
    {"config.apply", "POST /v1/apply", "Projects.Apply", kOperator, kOperator},
    {"join_tokens.new", "POST /v1/join-tokens", "Hosts.NewJoinToken", kOperator, kOperator},
    {"join_tokens.list", "GET /v1/join-tokens", "Hosts.ListJoinTokens", kOperator, kOperator},
    {"join_tokens.revoke", "DELETE /v1/join-tokens/{id}", "Hosts.RevokeJoinToken", kOperator,
     kOperator},
    {"reservations.create", "POST /v1/reservations", "Reservations.Create", kOperator, kOperator},
    {"reservations.list", "GET /v1/reservations", "Reservations.List", kViewer, kViewer},
    {"reservations.get", "GET /v1/reservations/{id}", "Reservations.Get", kViewer, kViewer},
    {"reservations.delete", "DELETE /v1/reservations/{id}", "Reservations.Delete", kOperator,
     kOperator},
    // By a host, which shows its join token; its stream shows the credential that it got.
    {"hosts.join", "POST /v1/join", "Hosts.Join", kNone, kOperator, kAnybody},
    {"hosts.report", "", "AgentLink.Stream", kNone, kOperator, kAnybody},
    {"pool.info", "GET /v1/pool", "", kNone, kOperator, kAnybody},
    {"pool.health", "GET /healthz", "", kNone, kOperator, kAnybody},
    {"pool.ready", "GET /readyz", "", kNone, kOperator, kAnybody},
    {"pool.openapi", "GET /openapi.json", "", kNone, kOperator, kCallers},
    {"events.list", "GET /v1/events", "", kViewer, kOperator},
    {"pool.snapshot", "GET /v1/snapshot", "", kOperator, kOperator},
    {"audit.list", "GET /v1/audit", "Accounts.ListAudit", kOperator, kOperator},
    {"metrics.get", "GET /metrics", "", kViewer, kViewer},
    {"users.add", "POST /v1/users", "Accounts.AddUser", kOperator, kOperator},
    {"users.remove", "DELETE /v1/users/{id}", "Accounts.RemoveUser", kOperator, kOperator},
    {"users.list", "GET /v1/users", "Accounts.ListUsers", kAdmin, kOperator},
    // In projects of which the caller is an admin; the roles above that are the operator's to give.
    {"roles.grant", "POST /v1/users/{id}:grant", "Accounts.GrantRole", kAdmin, kOperator},
    {"roles.revoke", "POST /v1/users/{id}:revoke", "Accounts.RevokeRole", kAdmin, kOperator},
    // One's own; another user's are the operator's.
    // By whom the provider knows: what it signed is all that counts.
    {"login", "POST /v1/login", "", kNone, kOperator, kAnybody},
    {"tokens.new", "POST /v1/tokens", "Accounts.NewToken", kViewer, kOperator},
    {"tokens.list", "GET /v1/tokens", "Accounts.ListTokens", kNone, kOperator, kCallers},
    {"tokens.revoke", "DELETE /v1/tokens/{id}", "Accounts.RevokeToken", kNone, kOperator, kCallers},
    {"whoami", "GET /v1/whoami", "Accounts.WhoAmI", kNone, kOperator, kCallers, true},
};

}  // namespace

std::span<const Rule> Rules() {
  return kRules;
}

const Rule& RuleOf(std::string_view name) {
  for (const Rule& rule : kRules)
    if (name == rule.rest || name == rule.grpc || name == rule.verb) return rule;
  return kOperators;
}

bool IsAudited(const Rule& rule) {
  constexpr std::string_view kReads[] = {"claims.plan", "gangs.plan", "claims.explain",
                                         "claims.renew", "claims.connect"};
  if (rule.verb == "login") return true;
  return rule.lets_in != LetsIn::kAnybody && rule.rest.substr(0, 4) != "GET " &&
         std::find(std::begin(kReads), std::end(kReads), rule.verb) == std::end(kReads);
}

bool May(const Caller& caller, const Rule& rule, std::string* why) {
  if (rule.lets_in == LetsIn::kAnybody) return true;
  if (!caller.claim.empty()) {
    if (rule.by_claim_token) return true;
    *why = "this token may only connect to claim " + caller.claim;
    return false;
  }
  const Role highest = caller.Highest();
  if (rule.lets_in == LetsIn::kCallers || highest >= rule.least) return true;
  if (rule.least == Role::kOperator) {
    *why = "only the pool's operator may ask for this";
    return false;
  }
  *why = std::string(rule.verb) + " needs the role " + std::string(ToText(rule.least)) + ", and " +
         (highest == Role::kNone ? "this token has none"
                                 : "this token's is " + std::string(ToText(highest)));
  return false;
}

bool MayTo(const Caller& caller, const Rule& rule, const std::string& claim,
           const std::string& tenant, std::string_view project) {
  if (!caller.claim.empty()) return rule.by_claim_token && caller.claim == claim;
  if (caller.is_operator) return true;
  if (caller.Owns(tenant, project)) return caller.In(project) >= rule.least;
  return RoleIn(caller.roles, project) >= rule.others;
}

}  // namespace farcall::pool
