// SPDX-License-Identifier: Apache-2.0
// Hosts: which there are, how one joins, and what each tells of itself.
#include <chrono>

#include "pool/access/unix_time.h"
#include "pool/service/service.h"
#include "pool/service/service_parts.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"

namespace farcall::pool {

namespace {

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
    TellLeaving(caller, core, now, status);
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

// Which claims are about to lose their GPUs, or have.
void Service::TellLeaving(const Caller& caller, const Core& core, Ms now, pb::PoolStatus* status) {
  for (pb::HostStatus& told : *status->mutable_hosts())
    for (const std::string& id : core.hosts().at(told.host()).claims) {
      const Claim& claim = *core.Find(id);
      const bool is_warned = claim.state == ClaimState::kPreempting;
      if ((!is_warned && claim.state != ClaimState::kParked) ||
          !caller.Sees(claim.tenant, ProjectOf(claim)))
        continue;
      pb::LeavingClaim* leaving = told.add_leaving();
      leaving->set_claim(id);
      leaving->set_state(std::string(ToText(claim.state)));
      leaving->set_why(claim.reason);
      if (is_warned) leaving->set_leaves_in_ms(core.LeavesIn(claim, now));
    }
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
