// SPDX-License-Identifier: Apache-2.0
// Users and tokens among the core's events: tokens of claims end with them.
#include "pool/core/core.h"

namespace farcall::pool {

namespace {

RefusalCode CodeOf(Accounts::Refused::Why why) {
  using Why = Accounts::Refused::Why;
  switch (why) {
    case Why::kNotFound:
      return RefusalCode::kNotFound;
    case Why::kConflict:
      return RefusalCode::kConflict;
    case Why::kTooMany:
      return RefusalCode::kTooMany;
    default:
      return RefusalCode::kInvalid;
  }
}

// The kind of a line in /v1/events, and whom it is about. No line tells of a claim's tokens: each
// start of a container makes one.
std::pair<const char*, std::string> LineOf(const AccountEvent& event) {
  if (const auto* added = std::get_if<AddUser>(&event.what))
    return {"user_added", added->user.name};
  if (const auto* removed = std::get_if<RemoveUser>(&event.what))
    return {"user_removed", removed->name};
  if (const auto* set = std::get_if<SetRole>(&event.what))
    return {set->is_taken ? "role_taken" : "role_given", set->name};
  if (const auto* made = std::get_if<AddToken>(&event.what))
    return {made->token.claim.empty() ? "token_made" : "", made->token.id};
  return {"token_revoked", std::get<RevokeToken>(event.what).id};
}

// The projects that an event would name, which have to be there.
std::vector<std::string> ProjectsOf(const AccountEvent& event) {
  std::vector<std::string> projects;
  if (const auto* added = std::get_if<AddUser>(&event.what))
    for (const RoleBinding& role : added->user.roles) projects.push_back(role.project);
  if (const auto* set = std::get_if<SetRole>(&event.what); set && !set->is_taken)
    projects.push_back(set->binding.project);
  if (const auto* made = std::get_if<AddToken>(&event.what))
    projects.push_back(made->token.project);
  return projects;
}

}  // namespace

void Core::On(const AccountEvent& event) {
  AccountEvent whole = event;
  if (auto* made = std::get_if<AddToken>(&whole.what); made && !made->token.claim.empty()) {
    const Claim* claim = Find(made->token.claim);
    if (claim == nullptr)
      return Refuse(RefusalCode::kNotFound, "there is no claim '" + made->token.claim + "'",
                    "claim", "farcall pool list shows them");
    if (IsOver(claim->state))
      return Refuse(RefusalCode::kConflict, "claim '" + claim->id + "' is over", "claim");
    made->token.tenant = claim->tenant;
  }
  for (const std::string& project : ProjectsOf(whole))
    if (IsProjectName(project) && FindProject(project) == nullptr)
      return Refuse(RefusalCode::kInvalid, "there is no project '" + project + "'", "project",
                    "farcall pool project list shows them");
  if (auto refused = accounts_.Apply(whole, &effects_->accounts))
    return Refuse(CodeOf(refused->why), refused->message, refused->field, refused->hint);
  auto [kind, about] = LineOf(event);
  if (*kind != '\0') Say(kind, "", "", about);
}

}  // namespace farcall::pool
