// SPDX-License-Identifier: Apache-2.0
// Hosts: which there are, how one joins, and what each tells of itself.
#include <chrono>

#include "pool/access/unix_time.h"
#include "pool/service/service.h"
#include "pool/service/service_parts.h"
#include "proto/handshake.h"
#include "proto/hex.h"

namespace farcall::pool {

namespace {

constexpr int64_t kJoinSeconds = 3600, kMaxJoinSeconds = 30 * 24 * 3600;
constexpr size_t kSecretDigits = 64;
constexpr size_t kMaxStatusBytes = 1u << 20;     // of one host; a server's agent sends no more
constexpr size_t kMaxStatusesBytes = 32u << 20;  // of one answer

std::string HashOf(std::string_view secret) {
  return HexOf(Sha256(BytesOf(secret)));
}

}  // namespace

Outcome Service::ListHosts(const Caller&, pb::HostList* list) {
  controller_->Read([&](const Core& core, Ms now) {
    for (const auto& [name, host] : core.hosts()) *list->add_hosts() = ToProto(host, now);
  });
  return {};
}

Outcome Service::ListGpus(const Caller&, pb::GpuList* list) {
  controller_->Read([&](const Core& core, Ms) {
    for (const auto& [name, host] : core.hosts())
      for (uint32_t i = 0; i < host.gpus.size(); ++i)
        *list->add_gpus() = ToProto(host.gpus[i], name, i);
  });
  return {};
}

Outcome Service::ChangeHost(const Caller&, const pb::HostName& name, SetHost::Verb verb,
                            pb::Host* told) {
  Effects effects = controller_->Apply(SetHost{name.name(), verb, IfRevision(name.if_revision())});
  if (effects.refusal) return Of(*effects.refusal);
  controller_->Read([&](const Core& core, Ms now) {
    auto host = core.hosts().find(name.name());
    if (host != core.hosts().end()) *told = ToProto(host->second, now);
  });
  return {};
}

Outcome Service::NewJoinToken(const Caller&, const pb::JoinTokenRequest& request,
                              pb::JoinToken* token) {
  int64_t seconds = request.expires_s() == 0 ? kJoinSeconds : request.expires_s();
  if (seconds < 1 || seconds > kMaxJoinSeconds)
    return Failed(
        400, "invalid",
        "expires_s " + std::to_string(seconds) + ": 1 to " + std::to_string(kMaxJoinSeconds),
        "expires_s");
  int64_t now = UnixSeconds();
  std::string secret = RandomHex(kSecretDigits);
  Effects effects =
      controller_->Apply(MakeJoinToken{HashOf(secret), {request.host(), now + seconds}, now});
  if (effects.refusal) return Of(*effects.refusal);
  token->set_token(secret);
  token->set_expires(now + seconds);
  token->set_host(request.host());
  return {};
}

Outcome Service::Join(const Caller&, const pb::JoinRequest& request, pb::Joined* joined) {
  JoinHost event;
  event.host = request.host();
  event.now_unix = UnixSeconds();
  const bool is_lasting =
      !options_.join_token.empty() &&
      SameBytes(Sha256(BytesOf(request.token())), Sha256(BytesOf(options_.join_token)));
  if (!is_lasting) event.token_hash = HashOf(request.token());
  std::string secret = RandomHex(kSecretDigits);
  event.credential = HashOf(secret);
  Effects effects = controller_->Apply(event);
  if (effects.refusal) return Of(*effects.refusal);
  joined->set_host(request.host());
  joined->set_credential(secret);
  return {};
}

std::optional<std::string> Service::HostOf(std::string_view authorization) const {
  if (!options_.hosts_need_tokens) return "";
  std::optional<std::string_view> credential = BearerOf(authorization);
  return credential ? controller_->HostOf(HashOf(*credential)) : std::nullopt;
}

void Service::NoteStatus(const std::string& host, control::v1::ServerStatus status) {
  status.DiscardUnknownFields();
  if (status.ByteSizeLong() > kMaxStatusBytes) status.Clear();
  std::lock_guard lock(mutex_);
  statuses_[host] = {std::move(status), std::chrono::steady_clock::now()};
}

Outcome Service::GetStatus(const Caller& caller, pb::PoolStatus* status) {
  controller_->Read([&](const Core& core, Ms now) {
    for (const auto& [name, host] : core.hosts()) {
      pb::HostStatus* told = status->add_hosts();
      told->set_host(name);
      told->set_state(std::string(ToText(host.state)));
      told->set_silent_ms(now - host.heard);
    }
  });
  std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (pb::HostStatus& told : *status->mutable_hosts()) {
    auto word = statuses_.find(told.host());
    if (word == statuses_.end()) continue;
    bytes += word->second.status.ByteSizeLong();
    if (bytes > kMaxStatusesBytes) break;  // the others are listed without
    *told.mutable_status() = word->second.status;
    told.set_age_ms(std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now() - word->second.at)
                        .count());
  }
  if (!caller.is_operator) KeepOwn(caller, status);
  return {};
}

void Service::KeepOwn(const Caller& caller, pb::PoolStatus* status) {
  controller_->Read([&](const Core& core, Ms) {
    for (pb::HostStatus& host : *status->mutable_hosts()) {
      if (!host.has_status()) continue;
      farcall::control::v1::ServerStatus
          kept;  // what a server tells of all its users is not theirs
      for (farcall::control::v1::Vgpu& vgpu : *host.mutable_status()->mutable_vgpus()) {
        auto claim = core.claims().find(vgpu.id());
        if (claim != core.claims().end() &&
            caller.Sees(claim->second.tenant, ProjectOf(claim->second)))
          kept.add_vgpus()->Swap(&vgpu);
      }
      *host.mutable_status() = std::move(kept);
    }
  });
}

}  // namespace farcall::pool
