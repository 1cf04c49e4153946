// SPDX-License-Identifier: Apache-2.0
#include "pool/service/service.h"

#include <algorithm>
#include <chrono>

#include "pool/access/unix_time.h"
#include "pool/oidc/provider.h"
#include "pool/service/service_parts.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"
#include "proto/printable.h"
#include "settings/version.h"

namespace farcall::pool {

namespace {

constexpr Ms kLongestWait = 60'000, kChangeWait = 10'000;

}  // namespace

std::string RandomHex(size_t digits) {
  std::vector<uint8_t> bytes(digits / 2);
  RandomBytes(bytes);
  return HexOf(bytes);
}

Service::Service(Controller* controller, ServiceOptions options)
    : controller_(controller), options_(std::move(options)) {}
Service::~Service() = default;

Outcome Of(const Refusal& refusal) {
  switch (refusal.code) {
    case RefusalCode::kDenied:
      return Failed(401, "unauthenticated", refusal.message, refusal.field, refusal.hint);
    case RefusalCode::kNotFound:
      return Failed(404, "not_found", refusal.message, refusal.field, refusal.hint);
    case RefusalCode::kConflict:
      return Failed(409, "conflict", refusal.message, refusal.field, refusal.hint);
    case RefusalCode::kTooMany:
      return Failed(429, "too_many", refusal.message, refusal.field, refusal.hint);
    case RefusalCode::kUnavailable:
      return Failed(503, "unavailable", refusal.message, refusal.field, refusal.hint);
    default:
      return Failed(400, "invalid", refusal.message, refusal.field, refusal.hint);
  }
}

Outcome Failed(int http, std::string code, const std::string& message, const std::string& field,
               std::string hint) {
  Outcome outcome;
  outcome.http = http;
  outcome.error.set_code(std::move(code));
  // They quote what a peer said, of any length and bytes.
  outcome.error.set_message(Printable(message, kMaxMessageBytes));
  outcome.error.set_field(Printable(field));
  outcome.error.set_hint(std::move(hint));
  return outcome;
}

void Service::SetAddresses(std::string grpc, std::string data) {
  std::lock_guard lock(mutex_);
  options_.grpc = std::move(grpc);
  options_.data = std::move(data);
}

Outcome Service::Describe(const Caller& caller, const std::string& id, pb::Claim* claim) {
  Host host;
  std::optional<Claim> found = controller_->Find(id, &host);
  if (!found || !caller.Sees(found->tenant, ProjectOf(*found))) return NoClaim(id);
  *claim = ToProto(*found, found->host.empty() ? nullptr : &host);
  if (found->state == ClaimState::kPreempting)
    controller_->Read(
        [&](const Core& core, Ms now) { claim->set_leaves_in_ms(core.LeavesIn(*found, now)); });
  return {};
}

bool Service::CouldNeverFit(const std::string& id) {
  const std::optional<Claim> claim = controller_->Find(id);
  if (!claim || claim->state != ClaimState::kPending) return false;
  pb::ClaimName name;
  name.set_id(id);
  pb::Explanation told;
  Explain(name, &told);
  return told.gpus() != 0 && !told.could_ever_fit();
}

Outcome Service::MayRank(const Caller& caller, int32_t queue_priority) const {
  if (caller.is_operator || queue_priority <= options_.max_queue_priority) return {};
  return Failed(403, "forbidden",
                "queue_priority " + std::to_string(queue_priority) + ": this token may ask for " +
                    std::to_string(options_.max_queue_priority) + " at most",
                "queue_priority", "the pool's operator sets it: --max-queue-priority");
}

Outcome Service::Request(const Caller& caller, const pb::ClaimRequest& request, pb::Claim* claim) {
  std::string id;
  if (Outcome made = RequestFor(caller, request, 0, &id); !made.ok()) return made;
  return Describe(caller, id, claim);
}

Outcome Service::RequestFor(const Caller& caller, const pb::ClaimRequest& request, uint32_t members,
                            std::string* id) {
  RequestClaim event;
  if (std::optional<Refusal> wrong = ToAsk(request, &event.ask)) return Of(*wrong);
  if (request.wait_ms() < 0 || request.wait_ms() > kLongestWait)
    return Failed(400, "invalid", "wait_ms " + std::to_string(request.wait_ms()) + ": 0 to 60000",
                  "wait_ms");
  if (Outcome may = MayRank(caller, event.ask.queue_priority); !may.ok()) return may;
  if (Outcome may = MayRequest(caller, &event.ask); !may.ok()) return may;
  event.members = members;
  event.id = (members == 0 ? "c-" : "g-") + RandomHex(16);
  event.tenant = caller.tenant;
  event.owner = request.owner();
  event.idempotency_key = request.idempotency_key();
  event.now_unix = UnixSeconds();
  Effects effects = controller_->Apply(event);
  if (effects.refusal) {
    Outcome refused = Of(*effects.refusal);
    if (refused.http == 401) {  // the token is good; its project is not one of the group's
      refused.http = 403;
      refused.error.set_code("forbidden");
    }
    return refused;
  }
  if (request.wait_ms() != 0 && !CouldNeverFit(effects.claim))
    if (TakenPlace place(waiters_, caller); place)
      controller_->WaitBound(effects.claim, std::min(request.wait_ms(), options_.longest_wait));
  *id = effects.claim;
  return {};
}

Outcome Service::Update(const Caller& caller, const pb::ClaimChange& request, pb::Claim* claim) {
  ChangeClaim change;
  if (std::optional<Refusal> wrong = ToChange(request, &change)) return Of(*wrong);
  if (Outcome may = MayTouch(caller, RuleOf("claims.update"), request.id(), &change.by); !may.ok())
    return may;
  if (change.queue_priority)
    if (Outcome may = MayRank(caller, *change.queue_priority); !may.ok()) return may;
  Ms wait = request.has_wait_ms() ? request.wait_ms() : kChangeWait;
  if (wait < 0 || wait > kLongestWait)
    return Failed(400, "invalid", "wait_ms " + std::to_string(wait) + ": 0 to 60000", "wait_ms");
  Effects effects = controller_->Apply(change);
  if (effects.refusal) return Of(*effects.refusal);
  if (effects.quota_revision == 0)
    return Describe(caller, effects.claim, claim);  // no host has to be asked
  TakenPlace place(waiters_, caller);
  std::optional<Claim> after = controller_->WaitUntil(
      effects.claim, place ? std::min(wait, options_.longest_wait) : 0, [&](const Claim& told) {
        return !told.before || told.quota_revision != effects.quota_revision;
      });
  if (after && after->refused_revision == effects.quota_revision)
    return Failed(409, "refused", "its host: " + after->change_refused, "", "nothing has changed");
  return Describe(caller, effects.claim, claim);
}

Outcome Service::Get(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim) {
  return Describe(caller, name.id(), claim);
}

Outcome Service::List(const Caller& caller, const pb::ListClaimsRequest& request,
                      pb::ClaimList* list) {
  uint32_t limit = PageOf(request.limit());
  controller_->Read([&](const Core& core, Ms) {
    list->set_total(static_cast<uint32_t>(
        std::count_if(core.claims().begin(), core.claims().end(), [&](const auto& claim) {
          return caller.Sees(claim.second.tenant, ProjectOf(claim.second));
        })));
    for (auto at = core.claims().upper_bound(request.page_token()); at != core.claims().end();
         ++at) {
      const Claim& claim = at->second;
      if (!caller.Sees(claim.tenant, ProjectOf(claim))) continue;
      if (!request.state().empty() && ToText(claim.state) != request.state()) continue;
      if (list->claims_size() == static_cast<int>(limit)) {
        list->set_next_page_token(list->claims(list->claims_size() - 1).id());
        return;
      }
      auto host = core.hosts().find(claim.host);
      *list->add_claims() = ToProto(claim, host == core.hosts().end() ? nullptr : &host->second);
    }
  });
  return {};
}

Outcome Service::Release(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim) {
  std::optional<std::string> by;
  if (Outcome may = MayTouch(caller, RuleOf("claims.release"), name.id(), &by); !may.ok())
    return may;
  Effects effects =
      controller_->Apply(ReleaseClaim{name.id(), "asked for", IfRevision(name.if_revision()), by});
  return effects.refusal ? Of(*effects.refusal) : Describe(caller, name.id(), claim);
}

Outcome Service::Renew(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim) {
  std::optional<std::string> by;
  if (Outcome may = MayTouch(caller, RuleOf("claims.renew"), name.id(), &by); !may.ok()) return may;
  Effects effects = controller_->Apply(RenewClaim{name.id(), by});
  return effects.refusal ? Of(*effects.refusal) : Describe(caller, name.id(), claim);
}

void Service::Lead(const Controller::Seat& seat, pb::Connection* connection) {
  int64_t now = UnixSeconds();
  Lease lease{options_.pool, seat.claim,    seat.host, seat.epoch,
              seat.instance, RandomHex(32), now,       now + kLeaseSeconds};
  connection->set_claim(seat.claim);
  for (const std::string& url : seat.endpoints) connection->add_endpoints(url);
  connection->set_token(SignLease(lease, options_.key));
  connection->set_expires(lease.expires);
}

Outcome Service::Connect(const Caller& caller, const pb::ClaimName& name,
                         pb::Connection* connection) {
  std::optional<Controller::Seat> seat = controller_->FindSeat(name.id());
  if (!seat || !MayTo(caller, RuleOf("claims.connect"), seat->claim, seat->tenant, seat->project)) {
    std::optional<std::string> by;
    if (Outcome may = MayTouch(caller, RuleOf("claims.connect"), name.id(), &by); !may.ok())
      return may;
  }
  if (seat) {
    Lead(*seat, connection);
    return {};
  }
  std::optional<Claim> claim = controller_->Find(name.id());
  if (!claim) return NoClaim(name.id());
  return Failed(409, "not_bound",
                "claim '" + claim->id + "' is " + std::string(ToText(claim->state)), "id",
                "ask :explain why");
}

uint64_t Service::TellAll(const Caller& caller, Watched what, const std::string& name,
                          const Tell& tell, bool* goes_on) {
  std::vector<pb::Change> all(1);
  uint64_t number = 0;
  controller_->Read([&](const Core& core, Ms now) {
    number = controller_->LastChange();
    for (const auto& [id, claim] : core.claims()) {
      if (what != Watched::kClaims || (!name.empty() && id != name)) continue;
      if (!caller.Sees(claim.tenant, ProjectOf(claim))) continue;
      auto host = core.hosts().find(claim.host);
      *all.emplace_back().mutable_claim() =
          ToProto(claim, host == core.hosts().end() ? nullptr : &host->second);
      all.back().set_kind("claim");
    }
    for (const auto& [id, host] : core.hosts()) {
      if (what != Watched::kHosts || (!name.empty() && id != name)) continue;
      *all.emplace_back().mutable_host() = ToProto(host, now);
      all.back().set_kind("host");
    }
  });
  all.front().set_kind("all");
  all.emplace_back().set_kind("synced");
  // One who is cut off before `synced` starts anew.
  all.back().set_number(number);
  for (const pb::Change& change : all) *goes_on = *goes_on && tell(&change);
  return number;
}

void Service::Watch(const Caller& caller, Watched what, const pb::WatchRequest& request,
                    const Tell& tell) {
  constexpr Ms kSilence = 1000;
  uint64_t seen = request.after();
  bool goes_on = true;
  while (goes_on && !controller_->is_stopping()) {
    std::optional<Controller::Changes> changes = controller_->ChangesAfter(seen, kSilence);
    if (!changes) {
      seen = TellAll(caller, what, request.name(), tell, &goes_on);
      continue;
    }
    if (changes->empty()) goes_on = tell(nullptr);
    for (const auto& change : *changes) {
      seen = change->number();
      bool is_claims = change->kind() != "host";
      const std::string& id = is_claims ? change->claim().id() : change->host().name();
      if (is_claims != (what == Watched::kClaims)) continue;
      if (is_claims && !caller.Sees(change->claim().tenant(), change->claim().project())) continue;
      if (request.name().empty() || id == request.name()) goes_on = goes_on && tell(change.get());
    }
  }
}

std::vector<std::string> Service::addresses() const {
  std::lock_guard lock(mutex_);
  const bool is_tls = options_.rest.compare(0, 8, "https://") == 0;
  return {options_.rest, (is_tls ? "grpcs://" : "grpc://") + options_.grpc};
}

void Service::SetRest(std::string url) {
  std::lock_guard lock(mutex_);
  options_.rest = std::move(url);
}

void Service::SetHealth(std::string address) {
  std::lock_guard lock(mutex_);
  options_.health = std::move(address);
}

Outcome Service::GetInfo(const Caller&, pb::Info* info) {
  std::lock_guard lock(mutex_);
  info->set_pool(options_.pool);
  info->set_term(controller_->term());
  info->set_grpc(options_.grpc);
  info->set_data(options_.data);
  info->set_health(options_.health);
  info->set_version(kServerVersion);
  if (provider_ != nullptr) {
    info->set_oidc_issuer(provider_->options().rules.issuer);
    info->set_oidc_client(provider_->options().rules.audience);
  }
  return {};
}

std::string Service::Metrics() {
  std::array<size_t, kClaimStates> claims{};
  std::array<size_t, kHostStates> hosts{};
  uint64_t memory = 0, used = 0;
  size_t gpus = 0;
  controller_->Read([&](const Core& core, Ms) {
    for (const auto& [id, claim] : core.claims()) ++claims[static_cast<size_t>(claim.state)];
    for (const auto& [name, host] : core.hosts()) {
      ++hosts[static_cast<size_t>(host.state)];
      for (const Gpu& gpu : host.gpus) {
        ++gpus;
        memory += gpu.memory_bytes;
        used += gpu.used_bytes;
      }
    }
  });
  std::string text = "# TYPE farcall_pool_claims gauge\n";
  for (size_t i = 0; i < kClaimStates; ++i)
    text += "farcall_pool_claims{state=\"" + std::string(ToText(static_cast<ClaimState>(i))) +
            "\"} " + std::to_string(claims[i]) + "\n";
  text += "# TYPE farcall_pool_hosts gauge\n";
  for (size_t i = 0; i < kHostStates; ++i)
    text += "farcall_pool_hosts{state=\"" + std::string(ToText(static_cast<HostState>(i))) +
            "\"} " + std::to_string(hosts[i]) + "\n";
  auto gauge = [&](const char* name, uint64_t value) {
    text += std::string("# TYPE ") + name + " gauge\n" + name + " " + std::to_string(value) + "\n";
  };
  gauge("farcall_pool_gpus", gpus);
  gauge("farcall_pool_memory_bytes", memory);
  gauge("farcall_pool_memory_claimed_bytes", used);
  gauge("farcall_pool_term", controller_->term());
  gauge("farcall_pool_store_writable", controller_->store_fault().empty() ? 1 : 0);
  return text;
}

bool Service::MayConnect(const Caller& caller, const std::string& claim) {
  if (caller.is_operator) return true;
  const Rule& rule = RuleOf("claims.connect");
  if (std::optional<Controller::Seat> seat = controller_->FindSeat(claim))
    return MayTo(caller, rule, claim, seat->tenant, seat->project);
  std::optional<Claim> found = controller_->Find(claim);
  return found && MayTo(caller, rule, claim, found->tenant, ProjectOf(*found));
}

Outcome Service::ClaimOfRun(const std::string& run, const std::string& owner, const Ask& ask,
                            std::string* id, const Caller& caller, const std::string& source) {
  RequestClaim event;
  event.tenant = caller.tenant;
  event.id = "c-" + RandomHex(16);
  event.owner = owner;
  event.idempotency_key = run;
  event.is_run = true;
  event.ask = ask;
  pb::ClaimRequest asked = ToProto(event.ask);
  asked.set_owner(owner);
  const Rule& rule = RuleOf("Claims.Request");
  if (Outcome may = MayRequest(caller, &event.ask); !may.ok()) {
    Audit(caller, rule, source, &asked, nullptr, may.http);
    return may;
  }
  event.now_unix = UnixSeconds();
  Effects effects = controller_->Apply(event);
  if (effects.refusal) return Of(*effects.refusal);
  *id = effects.claim;
  // Of the processes of a run the first alone makes the claim.
  pb::Claim made;
  made.set_id(effects.claim);
  if (effects.claim == event.id) Audit(caller, rule, source, &asked, &made, 201);
  return {};
}

}  // namespace farcall::pool
