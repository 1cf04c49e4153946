// SPDX-License-Identifier: Apache-2.0
#include "pool/service.h"

#include <algorithm>
#include <chrono>

#include "proto/handshake.h"
#include "server/version.h"

namespace farcall::pool {

namespace {

constexpr Ms kLongestWait = 60'000;
constexpr uint32_t kDefaultPage = 100, kMostPage = 1000;

std::string Random(size_t digits) {
  std::string bytes(digits / 2, '\0'), text;
  RandomBytes({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Outcome Of(const Refusal& refusal) {
  switch (refusal.code) {
    case RefusalCode::kNotFound:
      return Failed(404, "not_found", refusal.message, refusal.field, refusal.hint);
    case RefusalCode::kConflict:
      return Failed(409, "conflict", refusal.message, refusal.field, refusal.hint);
    default:
      return Failed(400, "invalid", refusal.message, refusal.field, refusal.hint);
  }
}

Outcome NoClaim(const std::string& id) {
  return Failed(404, "not_found", "there is no claim '" + id.substr(0, 64) + "'", "id",
                "farcall pool list shows them");
}

std::optional<uint64_t> IfRevision(uint64_t revision) {
  return revision == 0 ? std::nullopt : std::optional(revision);
}

}  // namespace

Outcome Failed(int http, std::string code, std::string message, std::string field,
               std::string hint) {
  Outcome outcome;
  outcome.http = http;
  outcome.error.set_code(std::move(code));
  outcome.error.set_message(std::move(message));
  outcome.error.set_field(std::move(field));
  outcome.error.set_hint(std::move(hint));
  return outcome;
}

void Service::SetAddresses(std::string grpc, std::string data) {
  options_.grpc = std::move(grpc);
  options_.data = std::move(data);
}

Outcome Service::Told(const std::string& id, pb::Claim* claim) {
  Host host;
  std::optional<Claim> found = controller_->Find(id, &host);
  if (!found) return NoClaim(id);
  *claim = ToProto(*found, found->host.empty() ? nullptr : &host);
  return {};
}

Outcome Service::Request(const pb::ClaimRequest& request, pb::Claim* claim) {
  RequestClaim event;
  if (std::optional<Refusal> wrong = ToAsk(request, options_.spread, &event.ask)) return Of(*wrong);
  if (request.wait_ms() < 0 || request.wait_ms() > kLongestWait)
    return Failed(400, "invalid", "wait_ms " + std::to_string(request.wait_ms()) + ": 0 to 60000",
                  "wait_ms");
  event.id = "c-" + Random(16);
  event.owner = request.owner();
  event.idempotency_key = request.idempotency_key();
  event.now_unix = UnixSeconds();
  Effects effects = controller_->Apply(event);
  if (effects.refusal) return Of(*effects.refusal);
  if (request.wait_ms() != 0) controller_->WaitBound(effects.claim, request.wait_ms());
  return Told(effects.claim, claim);
}

Outcome Service::Get(const pb::ClaimName& name, pb::Claim* claim) {
  return Told(name.id(), claim);
}

Outcome Service::List(const pb::ListClaimsRequest& request, pb::ClaimList* list) {
  uint32_t limit = request.limit() == 0 ? kDefaultPage : std::min(request.limit(), kMostPage);
  controller_->Read([&](const Core& core, Ms) {
    list->set_total(static_cast<uint32_t>(core.claims().size()));
    for (auto at = core.claims().upper_bound(request.page_token()); at != core.claims().end();
         ++at) {
      const Claim& claim = at->second;
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

Outcome Service::Release(const pb::ClaimName& name, pb::Claim* claim) {
  Effects effects =
      controller_->Apply(ReleaseClaim{name.id(), "asked for", IfRevision(name.if_revision())});
  return effects.refusal ? Of(*effects.refusal) : Told(name.id(), claim);
}

Outcome Service::Renew(const pb::ClaimName& name, pb::Claim* claim) {
  Effects effects = controller_->Apply(RenewClaim{name.id()});
  return effects.refusal ? Of(*effects.refusal) : Told(name.id(), claim);
}

Outcome Service::Explain(const pb::ClaimName& name, pb::Explanation* told) {
  Outcome outcome = NoClaim(name.id());
  controller_->Read([&](const Core& core, Ms) {
    const Claim* claim = core.Find(name.id());
    if (claim == nullptr) return;
    *told = ToProto(core.Explain(*claim));
    outcome = {};
  });
  return outcome;
}

Outcome Service::Lead(const Claim& claim, const Host& host, pb::Connection* connection) {
  int64_t now = UnixSeconds();
  Lease lease{options_.pool, claim.id, claim.host,         claim.epoch,
              Random(32),    now,      now + kLeaseSeconds};
  connection->set_claim(claim.id);
  for (const std::string& url : host.endpoints) connection->add_endpoints(url);
  connection->set_token(SignLease(lease, options_.key));
  connection->set_expires(lease.expires);
  return {};
}

Outcome Service::Connect(const pb::ClaimName& name, pb::Connection* connection) {
  Host host;
  std::optional<Claim> claim = controller_->Find(name.id(), &host);
  if (!claim) return NoClaim(name.id());
  if (!IsUsable(claim->state))
    return Failed(409, "not_bound",
                  "claim '" + claim->id + "' is " + std::string(ToText(claim->state)), "id",
                  "ask :explain why");
  return Lead(*claim, host, connection);
}

Outcome Service::Plan(const pb::ClaimRequest& request, pb::Explanation* told) {
  Ask ask;
  if (std::optional<Refusal> wrong = ToAsk(request, options_.spread, &ask)) return Of(*wrong);
  controller_->Read([&](const Core& core, Ms) {
    std::optional<Place> place;
    *told = ToProto(core.Plan(ask, &place));
    told->set_state("plan");
    told->set_fits_now(place.has_value());
    if (!place) return;
    told->set_host(place->host);
    for (uint32_t device : place->devices) told->add_devices(device);
  });
  return {};
}

Outcome Service::ListHosts(pb::HostList* list) {
  controller_->Read([&](const Core& core, Ms now) {
    for (const auto& [name, host] : core.hosts()) *list->add_hosts() = ToProto(host, now);
  });
  return {};
}

Outcome Service::ListGpus(pb::GpuList* list) {
  controller_->Read([&](const Core& core, Ms) {
    for (const auto& [name, host] : core.hosts())
      for (uint32_t i = 0; i < host.gpus.size(); ++i)
        *list->add_gpus() = ToProto(host.gpus[i], name, i);
  });
  return {};
}

Outcome Service::ChangeHost(const pb::HostName& name, SetHost::Verb verb, pb::Host* told) {
  Effects effects = controller_->Apply(SetHost{name.name(), verb, IfRevision(name.if_revision())});
  if (effects.refusal) return Of(*effects.refusal);
  controller_->Read([&](const Core& core, Ms now) {
    auto host = core.hosts().find(name.name());
    if (host != core.hosts().end()) *told = ToProto(host->second, now);
  });
  return {};
}

Outcome Service::GetInfo(pb::Info* info) {
  info->set_pool(options_.pool);
  info->set_term(controller_->term());
  info->set_grpc(options_.grpc);
  info->set_data(options_.data);
  info->set_version(server::kServerVersion);
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
  return text;
}

Outcome Service::ClaimOfRun(const std::string& run, const std::string& owner, const Ask& ask,
                            std::string* id) {
  RequestClaim event;
  event.id = "c-" + Random(16);
  event.owner = owner;
  event.idempotency_key = run;
  event.is_run = true;
  event.ask = ask;
  event.now_unix = UnixSeconds();
  Effects effects = controller_->Apply(event);
  if (effects.refusal) return Of(*effects.refusal);
  *id = effects.claim;
  return {};
}

}  // namespace farcall::pool
