// SPDX-License-Identifier: Apache-2.0
// Events of the core as a record holds them.
#include "pool/convert/convert.h"
#include "pool/convert/convert_accounts.h"
#include "pool/record/record.h"
#include "proto/priority.h"

namespace farcall::pool {

namespace {

template <typename Value, typename Set>
void SetIf(const std::optional<Value>& value, Set set) {
  if (value) set(*value);
}

void Put(const RequestClaim& event, v1::RecordedEvent* out) {
  v1::RecordedRequest* to = out->mutable_request();
  to->set_id(event.id);
  to->set_tenant(event.tenant);
  to->set_owner(event.owner);
  to->set_idempotency_key(event.idempotency_key);
  to->set_now_unix(event.now_unix);
  to->set_is_run(event.is_run);
  to->set_members(event.members);
  *to->mutable_ask() = ToProto(event.ask);
}

void Put(const ReleaseClaim& event, v1::RecordedEvent* out) {
  v1::RecordedRelease* to = out->mutable_release();
  to->set_id(event.id);
  to->set_reason(event.reason);
  SetIf(event.if_revision, [&](uint64_t value) { to->set_if_revision(value); });
  SetIf(event.by, [&](const std::string& value) { to->set_by(value); });
}

void Put(const RenewClaim& event, v1::RecordedEvent* out) {
  out->mutable_renewal()->set_id(event.id);
  SetIf(event.by, [&](const std::string& value) { out->mutable_renewal()->set_by(value); });
}

void Put(const ChangeClaim& event, v1::RecordedEvent* out) {
  v1::RecordedChange* to = out->mutable_change();
  v1::ClaimChange* change = to->mutable_change();
  change->set_id(event.id);
  SetIf(event.memory_bytes, [&](uint64_t value) { change->set_memory_bytes(value); });
  SetIf(event.net_bytes_per_s, [&](uint64_t value) { change->set_net_bytes_per_s(value); });
  SetIf(event.share_milli, [&](uint32_t value) { change->set_share_milli(value); });
  SetIf(event.limit_milli, [&](uint32_t value) { change->set_limit_milli(value); });
  SetIf(event.seats, [&](uint32_t value) { change->set_max_sessions(value); });
  SetIf(event.priority,
        [&](uint8_t value) { change->set_class_(std::string(PriorityName(value))); });
  SetIf(event.queue_priority, [&](int32_t value) { change->set_queue_priority(value); });
  SetIf(event.preemptible, [&](bool value) { change->set_preemptible(value); });
  SetIf(event.lifetime_ms, [&](Ms value) { change->set_lifetime_ms(value); });
  SetIf(event.by, [&](const std::string& value) { to->set_by(value); });
  SetIf(event.if_revision, [&](uint64_t value) { to->set_if_revision(value); });
}

void Put(const HostReport& event, v1::RecordedEvent* out) {
  v1::HostReport* to = out->mutable_report();
  to->set_host(event.host);
  to->set_incarnation(event.incarnation);
  to->set_beat(event.beat);
  to->set_draining(event.is_draining);
  to->set_net_bytes_per_s(event.net_ceiling);
  to->set_park_bytes(event.park_bytes);
  to->set_oversubscribe_milli(event.oversubscribe_milli);
  for (const std::string& url : event.endpoints) to->add_endpoints(url);
  for (const Gpu& gpu : event.gpus) *to->add_gpus() = ReportedToProto(gpu);
  for (const ReportedClaim& claim : event.claims) {
    v1::HeldClaim* one = to->add_claims();
    one->set_claim(claim.claim);
    one->set_epoch(claim.epoch);
    one->set_sessions(claim.sessions);
    one->set_ending(claim.is_ending);
    one->set_refused(claim.refused);
    for (uint32_t device : claim.devices) one->add_devices(device);
    one->set_memory_bytes(claim.memory_bytes);
    one->set_share_milli(claim.share_milli);
    one->set_limit_milli(claim.limit_milli);
    one->set_priority(claim.priority);
    one->set_seats(claim.seats);
    one->set_quota(claim.quota_revision);
    one->set_refused_quota(claim.refused_revision);
    one->set_change_refused(claim.change_refused);
    one->set_net_bytes_per_s(claim.net_bytes_per_s);
    one->set_parked(claim.is_parked);
    one->set_park_refused(claim.park_refused);
  }
}

void Put(const HostClosed& event, v1::RecordedEvent* out) {
  out->mutable_host_closed()->set_host(event.host);
  out->mutable_host_closed()->set_incarnation(event.incarnation);
}

void Put(const MakeJoinToken& event, v1::RecordedEvent* out) {
  v1::RecordedJoinToken* to = out->mutable_join_token();
  *to->mutable_token() = ToStored(event.hash, event.token);
  to->set_now_unix(event.now_unix);
}

void Put(const RevokeJoinToken& event, v1::RecordedEvent* out) {
  out->mutable_join_token_end()->set_id(event.id);
  out->mutable_join_token_end()->set_now_unix(event.now_unix);
}

void Put(const MakeReservation& event, v1::RecordedEvent* out) {
  *out->mutable_reservation()->mutable_reservation() = ToProto(event.reservation);
  out->mutable_reservation()->set_now_unix(event.now_unix);
}

void Put(const EndReservation& event, v1::RecordedEvent* out) {
  out->mutable_reservation_end()->set_name(event.name);
}

void Put(const JoinHost& event, v1::RecordedEvent* out) {
  v1::RecordedJoin* to = out->mutable_join();
  to->set_host(event.host);
  to->set_credential(event.credential);
  to->set_token_hash(event.token_hash);
  to->set_now_unix(event.now_unix);
}

void Put(const SetHost& event, v1::RecordedEvent* out) {
  v1::RecordedHostVerb* to = out->mutable_host_verb();
  to->set_host(event.host);
  to->set_verb(static_cast<uint32_t>(event.verb));
  SetIf(event.if_revision, [&](uint64_t value) { to->set_if_revision(value); });
}

void Put(const SetProject& event, v1::RecordedEvent* out) {
  v1::RecordedProject* to = out->mutable_project();
  *to->mutable_project() = ToProto(event.project);
  to->mutable_project()->set_usage_ms(event.project.usage_ms);
  SetIf(event.if_revision, [&](uint64_t value) { to->set_if_revision(value); });
}

void Put(const DeleteProject& event, v1::RecordedEvent* out) {
  out->mutable_project_end()->set_name(event.name);
  SetIf(event.if_revision,
        [&](uint64_t value) { out->mutable_project_end()->set_if_revision(value); });
}

void Put(const SetGroup& event, v1::RecordedEvent* out) {
  *out->mutable_group()->mutable_group() = ToProto(event.group);
  SetIf(event.if_revision, [&](uint64_t value) { out->mutable_group()->set_if_revision(value); });
}

void Put(const DeleteGroup& event, v1::RecordedEvent* out) {
  out->mutable_group_end()->set_name(event.name);
  SetIf(event.if_revision,
        [&](uint64_t value) { out->mutable_group_end()->set_if_revision(value); });
}

void Put(const AccountEvent& event, v1::RecordedEvent* out) {
  v1::RecordedAccount* to = out->mutable_account();
  to->set_now_unix(event.now_unix);
  if (const auto* added = std::get_if<AddUser>(&event.what))
    to->set_add_user(ToStored(added->user));
  if (const auto* removed = std::get_if<RemoveUser>(&event.what))
    to->set_remove_user(removed->name);
  if (const auto* made = std::get_if<AddToken>(&event.what)) {
    to->set_add_token(ToStored(made->token));
    to->set_token_most(std::string(ToText(made->token.most)));
  }
  if (const auto* revoked = std::get_if<RevokeToken>(&event.what))
    to->set_revoke_token(revoked->id);
  if (const auto* set = std::get_if<SetRole>(&event.what)) {
    to->mutable_role()->set_name(set->name);
    to->mutable_role()->set_role(std::string(ToText(set->binding.role)));
    to->mutable_role()->set_project(set->binding.project);
    to->set_role_is_taken(set->is_taken);
  }
}

void Put(const SetLabels& event, v1::RecordedEvent* out) {
  v1::HostLabels* to = out->mutable_labels();
  to->set_name(event.host);
  to->mutable_labels()->insert(event.labels.begin(), event.labels.end());
  to->set_if_revision(event.if_revision.value_or(0));
}

void Put(const ApplyConfig& event, v1::RecordedEvent* out) {
  v1::RecordedConfig* to = out->mutable_config();
  for (const Project& project : event.projects) *to->add_projects() = ToProto(project);
  for (const Group& group : event.groups) *to->add_groups() = ToProto(group);
  for (const User& user : event.users) to->add_users(ToStored(user));
  for (const auto& [name, labels] : event.hosts) {
    v1::HostLabels* one = to->add_hosts();
    one->set_name(name);
    one->mutable_labels()->insert(labels.begin(), labels.end());
  }
  to->set_is_dry_run(event.is_dry_run);
  to->set_now_unix(event.now_unix);
}

void Put(const Regranted& event, v1::RecordedEvent* out) {
  out->mutable_regrant();
  for (const std::string& host : event.hosts) out->mutable_regrant()->add_hosts(host);
}

void Put(const Tick& event, v1::RecordedEvent* out) {
  out->mutable_tick()->set_unix_ms(event.unix_ms);
}

// The field, if it is there.
#define FARCALL_GIVEN(from, field) \
  ((from).has_##field() ? std::optional((from).field()) : std::nullopt)

Status Wrong(const std::string& what) {
  return {Code::kInvalid, "the record has an event that no pool has: " + what};
}

Result<Event> Request(const v1::RecordedRequest& from) {
  RequestClaim event{from.id(), from.tenant(),   from.owner(),  from.idempotency_key(),
                     {},        from.now_unix(), from.is_run(), from.members()};
  if (std::optional<Refusal> wrong = ToAsk(from.ask(), &event.ask)) return Wrong(wrong->message);
  return Event(std::move(event));
}

Event Change(const v1::RecordedChange& from) {
  const v1::ClaimChange& given = from.change();
  ChangeClaim event;
  event.id = given.id();
  event.by = FARCALL_GIVEN(from, by);
  event.if_revision = FARCALL_GIVEN(from, if_revision);
  event.memory_bytes = FARCALL_GIVEN(given, memory_bytes);
  event.net_bytes_per_s = FARCALL_GIVEN(given, net_bytes_per_s);
  event.share_milli = FARCALL_GIVEN(given, share_milli);
  event.limit_milli = FARCALL_GIVEN(given, limit_milli);
  event.seats = FARCALL_GIVEN(given, max_sessions);
  if (given.has_class_()) event.priority = PriorityNumber(given.class_());
  event.queue_priority = FARCALL_GIVEN(given, queue_priority);
  event.preemptible = FARCALL_GIVEN(given, preemptible);
  event.lifetime_ms = FARCALL_GIVEN(given, lifetime_ms);
  return event;
}

Event Report(const v1::HostReport& from) {
  HostReport event;
  event.host = from.host();
  event.incarnation = from.incarnation();
  event.beat = from.beat();
  event.is_draining = from.draining();
  event.net_ceiling = from.net_bytes_per_s();
  event.park_bytes = from.park_bytes();
  event.oversubscribe_milli = std::max(from.oversubscribe_milli(), kWholeMilli);
  event.endpoints.assign(from.endpoints().begin(), from.endpoints().end());
  for (const v1::Gpu& one : from.gpus()) event.gpus.push_back(FromProto(one));
  for (const v1::HeldClaim& one : from.claims()) {
    ReportedClaim claim;
    claim.claim = one.claim();
    claim.epoch = one.epoch();
    claim.sessions = one.sessions();
    claim.is_ending = one.ending();
    claim.refused = one.refused();
    claim.devices.assign(one.devices().begin(), one.devices().end());
    claim.memory_bytes = one.memory_bytes();
    claim.share_milli = one.share_milli();
    claim.limit_milli = one.limit_milli();
    claim.priority = static_cast<uint8_t>(one.priority());
    claim.seats = one.seats();
    claim.quota_revision = one.quota();
    claim.refused_revision = one.refused_quota();
    claim.change_refused = one.change_refused();
    claim.net_bytes_per_s = one.net_bytes_per_s();
    claim.is_parked = one.parked();
    claim.park_refused = one.park_refused();
    event.claims.push_back(std::move(claim));
  }
  return event;
}

Labels LabelsOf(const v1::HostLabels& from) {
  return {from.labels().begin(), from.labels().end()};
}

Result<Event> Config(const v1::RecordedConfig& from) {
  ApplyConfig event;
  for (const v1::Project& project : from.projects()) event.projects.push_back(FromProto(project));
  for (const v1::Group& group : from.groups()) event.groups.push_back(GroupOf(group));
  for (const std::string& stored : from.users()) {
    std::optional<User> user = UserOf(stored);
    if (!user) return Wrong("a user that cannot be read");
    event.users.push_back(std::move(*user));
  }
  for (const v1::HostLabels& host : from.hosts()) event.hosts[host.name()] = LabelsOf(host);
  event.is_dry_run = from.is_dry_run();
  event.now_unix = from.now_unix();
  return Event(std::move(event));
}

Result<Event> Account(const v1::RecordedAccount& from) {
  AccountEvent event;
  event.now_unix = from.now_unix();
  if (!from.add_user().empty()) {
    std::optional<User> user = UserOf(from.add_user());
    if (!user) return Wrong("a user that cannot be read");
    event.what = AddUser{std::move(*user)};
  } else if (!from.add_token().empty()) {
    std::optional<AccessToken> token = TokenOf(from.add_token());
    if (!token) return Wrong("a token that cannot be read");
    token->most = ReadRole(from.token_most()).value_or(Role::kNone);
    event.what = AddToken{std::move(*token)};
  } else if (from.has_role()) {
    const Role role = ReadRole(from.role().role()).value_or(Role::kNone);
    event.what = SetRole{from.role().name(), {role, from.role().project()}, from.role_is_taken()};
  } else if (!from.remove_user().empty()) {
    event.what = RemoveUser{from.remove_user()};
  } else {
    event.what = RevokeToken{from.revoke_token()};
  }
  return Event(std::move(event));
}

}  // namespace

v1::RecordedEvent ToProto(const Event& event, Ms now) {
  v1::RecordedEvent recorded;
  recorded.set_now_ms(now);
  std::visit([&](const auto& one) { Put(one, &recorded); }, event);
  return recorded;
}

Result<Event> FromProto(const v1::RecordedEvent& recorded) {
  switch (recorded.what_case()) {
    case v1::RecordedEvent::kRequest:
      return Request(recorded.request());
    case v1::RecordedEvent::kRelease: {
      const v1::RecordedRelease& from = recorded.release();
      return Event(ReleaseClaim{from.id(), from.reason(), FARCALL_GIVEN(from, if_revision),
                                FARCALL_GIVEN(from, by)});
    }
    case v1::RecordedEvent::kRenewal:
      return Event(RenewClaim{recorded.renewal().id(), FARCALL_GIVEN(recorded.renewal(), by)});
    case v1::RecordedEvent::kChange:
      return Change(recorded.change());
    case v1::RecordedEvent::kReport:
      return Report(recorded.report());
    case v1::RecordedEvent::kHostClosed:
      return Event(HostClosed{recorded.host_closed().host(), recorded.host_closed().incarnation()});
    case v1::RecordedEvent::kJoinToken: {
      auto [hash, token] = FromProto(recorded.join_token().token());
      return Event(MakeJoinToken{hash, token, recorded.join_token().now_unix()});
    }
    case v1::RecordedEvent::kJoinTokenEnd:
      return Event(
          RevokeJoinToken{recorded.join_token_end().id(), recorded.join_token_end().now_unix()});
    case v1::RecordedEvent::kReservation:
      return Event(MakeReservation{ReservationOf(recorded.reservation().reservation()),
                                   recorded.reservation().now_unix()});
    case v1::RecordedEvent::kReservationEnd:
      return Event(EndReservation{recorded.reservation_end().name()});
    case v1::RecordedEvent::kJoin: {
      const v1::RecordedJoin& from = recorded.join();
      return Event(JoinHost{from.host(), from.credential(), from.token_hash(), from.now_unix()});
    }
    case v1::RecordedEvent::kHostVerb: {
      const v1::RecordedHostVerb& from = recorded.host_verb();
      if (from.verb() > 2) return Wrong("a verb of a host");
      return Event(SetHost{from.host(), static_cast<SetHost::Verb>(from.verb()),
                           FARCALL_GIVEN(from, if_revision)});
    }
    case v1::RecordedEvent::kProject: {
      SetProject event{FromProto(recorded.project().project()),
                       FARCALL_GIVEN(recorded.project(), if_revision)};
      return Event(std::move(event));
    }
    case v1::RecordedEvent::kProjectEnd:
      return Event(DeleteProject{recorded.project_end().name(),
                                 FARCALL_GIVEN(recorded.project_end(), if_revision)});
    case v1::RecordedEvent::kGroup: {
      SetGroup event{GroupOf(recorded.group().group()),
                     FARCALL_GIVEN(recorded.group(), if_revision)};
      return Event(std::move(event));
    }
    case v1::RecordedEvent::kGroupEnd:
      return Event(DeleteGroup{recorded.group_end().name(),
                               FARCALL_GIVEN(recorded.group_end(), if_revision)});
    case v1::RecordedEvent::kLabels: {
      SetLabels event{recorded.labels().name(), LabelsOf(recorded.labels()), {}};
      if (recorded.labels().if_revision() != 0) event.if_revision = recorded.labels().if_revision();
      return Event(std::move(event));
    }
    case v1::RecordedEvent::kConfig:
      return Config(recorded.config());
    case v1::RecordedEvent::kAccount:
      return Account(recorded.account());
    case v1::RecordedEvent::kRegrant:
      return Event(
          Regranted{{recorded.regrant().hosts().begin(), recorded.regrant().hosts().end()}});
    case v1::RecordedEvent::kTick:
      return Event(Tick{recorded.tick().unix_ms()});
    default:
      return Wrong("of a later version of Farcall");
  }
}

}  // namespace farcall::pool
