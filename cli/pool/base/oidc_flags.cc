// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/base/oidc_flags.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace farcall::cli {

void AddOidcFlags(CLI::App* command, OidcFlags* flags) {
  pool::IdTokenRules& rules = flags->options.rules;
  command->add_option("--oidc-issuer", rules.issuer,
                      "URL of an OpenID Connect provider at which users log in by `farcall login "
                      "--oidc` (default: none)");
  command->add_option("--oidc-client-id", rules.audience,
                      "the pool's client id there, which its tokens have to be for");
  command->add_option("--oidc-role", flags->roles,
                      "GROUP=ROLE or GROUP=ROLE@PROJECT: the role of whom the provider has in that "
                      "group; may be repeated");
  command
      ->add_option("--oidc-user-claim", rules.user_claim,
                   "claim of the provider's token that has the user's name")
      ->capture_default_str();
  command
      ->add_option("--oidc-groups-claim", rules.groups_claim,
                   "claim of the provider's token that has the user's groups")
      ->capture_default_str();
  command
      ->add_option("--oidc-hours", flags->hours,
                   "hours after which a token that came of a login expires")
      ->check(CLI::Range(0.01, 8760.0))
      ->capture_default_str();
  command->add_option("--oidc-ca", flags->options.ca,
                      "PEM file of the authorities that sign the provider's certificate (default: "
                      "the system's)");
}

Status ReadOidcFlags(const OidcFlags& flags, pool::OidcOptions* options) {
  *options = flags.options;
  const std::string& issuer = options->rules.issuer;
  if (issuer.empty()) {
    if (options->rules.audience.empty() && flags.roles.empty()) return {};
    return {Code::kInvalid, "--oidc-client-id and --oidc-role need --oidc-issuer"};
  }
  if (!pool::ChecksIdTokens())
    return {Code::kUnsupported, "--oidc-issuer: this build of farcall has no libcjose"};
  if (Status checked = pool::CheckIssuer(issuer); !checked.ok())
    return {Code::kInvalid, "--oidc-issuer: " + checked.message()};
  if (options->rules.audience.empty())
    return {Code::kInvalid,
            "--oidc-issuer needs --oidc-client-id, or tokens for other programs "
            "would do"};
  if (flags.roles.empty())
    return {Code::kInvalid,
            "--oidc-issuer needs --oidc-role: without one nobody who logs in may "
            "do anything"};
  if (!options->ca.empty() && access(options->ca.c_str(), R_OK) != 0)
    return {Code::kInvalid, "--oidc-ca '" + options->ca + "': " + strerror(errno)};
  for (const std::string& text : flags.roles) {
    Result<pool::GroupRole> role = pool::ReadGroupRole(text);
    if (!role.ok()) return role.status();
    options->roles.push_back(*role);
  }
  options->token_s = static_cast<int64_t>(flags.hours * 3600);
  return {};
}

}  // namespace farcall::cli
