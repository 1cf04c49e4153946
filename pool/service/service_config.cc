// SPDX-License-Identifier: Apache-2.0
// Labels, and configuration as a whole.
#include "pool/access/unix_time.h"
#include "pool/convert/convert_accounts.h"
#include "pool/service/service_parts.h"
#include "proto/printable.h"

namespace farcall::pool {

Outcome Service::SetLabels(const Caller&, const pb::HostLabels& request, pb::Host* host) {
  Effects effects =
      controller_->Apply(pool::SetLabels{request.name(),
                                         {request.labels().begin(), request.labels().end()},
                                         IfRevision(request.if_revision())});
  if (effects.refusal) return Of(*effects.refusal);
  controller_->Read([&](const Core& core, Ms now) {
    auto found = core.hosts().find(request.name());
    if (found != core.hosts().end()) *host = ToProto(found->second, now);
  });
  return {};
}

Outcome Service::Apply(const Caller&, const pb::Config& config, pb::ConfigDiff* diff) {
  ApplyConfig event;
  event.is_dry_run = config.dry_run();
  event.now_unix = UnixSeconds();
  for (const pb::Project& given : config.projects()) {
    event.projects.push_back(FromProto(given));
    event.projects.back().usage_ms = 0;  // told, not set
  }
  for (const pb::Group& given : config.groups())
    if (std::optional<Refusal> wrong = ToGroup(given, &event.groups.emplace_back())) {
      wrong->message = "group '" + Printable(given.name(), 64) + "': " + wrong->message;
      return Of(*wrong);
    }
  for (const pb::User& given : config.users()) {
    User user;
    user.name = given.name();
    user.tenant = NewTenant(given.name());
    user.is_machine = given.machine();
    for (const pb::RoleBinding& role : given.roles()) {
      auto binding = ToBinding(role.role(), role.project());
      if (!binding)
        return Failed(
            400, "invalid",
            "user '" + Printable(given.name(), 64) + "': role '" + Printable(role.role(), 64) + "'",
            "roles", "viewer, user, admin or operator");
      user.roles.push_back(*binding);
    }
    event.users.push_back(std::move(user));
  }
  for (const pb::HostLabels& given : config.hosts())
    if (!event.hosts.emplace(given.name(), Labels(given.labels().begin(), given.labels().end()))
             .second)
      return Failed(400, "invalid", "host '" + Printable(given.name(), 64) + "' is there twice",
                    "hosts");
  Effects effects = controller_->Apply(std::move(event));
  if (effects.refusal) return Of(*effects.refusal);
  diff->set_dry_run(config.dry_run());
  for (const ConfigChange& change : effects.config) *diff->add_changes() = ToProto(change);
  return {};
}

}  // namespace farcall::pool
