// SPDX-License-Identifier: Apache-2.0
// Who is let in: proofs, capacity. The start of a session: session_start.cc.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "listener/source.h"
#include "proto/printable.h"
#include "proto/session_features.h"
#include "server/supervisor/supervisor.h"
#include "transport/handshake.h"
#include "transport/tls/identity.h"

namespace farcall::server {

namespace {

// At once: of its HELLO nothing is unread, so that the end of the connection follows the refusal.
void Turn(Channel& channel, Code code, const std::string& why) {
  (void)SendRefuse(channel, {code, why}, Clock::now());
}

// Whose the sessions of a server without tokens are.
constexpr char kOpenTenant[] = "open";

}  // namespace

std::string Supervisor::TenantOf(const std::string& tenant, const quota::ClaimGrant* grant) {
  return grant == nullptr ? tenant : std::string(kClaimPrefix) + grant->claim;
}

std::string Supervisor::CountedAs(const Client& client, size_t tokens, const Channel& channel) {
  constexpr size_t kWhole = 8 * kMaxIdentityBytes;  // escaped: none is cut to what another is
  if (!client.identity.empty()) {
    return Printable(client.identity, kWhole);
  }
  const std::string peer = channel.PeerName();
  return tokens > 1 ? client.tenant : peer.substr(0, peer.rfind(':'));
}

void Supervisor::Refuse(Channel& channel, const Status& why) {
  if (std::optional<uint64_t> others = refusals_.Take(Clock::now())) {
    const std::string more =
        *others == 0 ? ""
                     : "; since the last line " + std::to_string(*others) + " others were, too";
    spdlog::warn("{}: refused: {}{}", channel.PeerName(), why.message(), more);
    nlohmann::json fields = {{"from", channel.PeerName()}, {"why", why.message()}};
    if (const std::string identity = channel.PeerIdentity(); !identity.empty()) {
      fields["certificate"] = Printable(identity, kMaxMessageBytes);
    }
    if (*others != 0) {
      fields["others"] = *others;
    }
    audit_.Note("session_refused", std::move(fields));
  }
  Turn(channel, why.code(), why.message());
}

Status Supervisor::CheckPlaintext(const Channel& channel, bool is_tls) const {
  if (options_.plaintext || is_tls || IsLoopbackPeer(channel.Descriptor())) {
    return {};
  }
  if (tls_.empty()) {
    return {Code::kRefused,
            "this server takes no plaintext from other hosts: start it with --listen tls://..., "
            "--tls-cert and --tls-key, or with --plaintext"};
  }
  const std::string url = tls_.front()->Url();
  return {Code::kRefused,
          "this server takes no plaintext from other hosts: connect with tls://, "
          "port " +
              url.substr(url.rfind(':') + 1) + ", or start the server with --plaintext"};
}

void Supervisor::Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard, bool is_tls) {
  if (Status checked = CheckPlaintext(*channel, is_tls); !checked.ok()) {
    return Refuse(*channel, checked);
  }
  const Hello& hello = heard.hello();
  if (Status user = CheckUser(*channel); !user.ok()) {
    return Refuse(*channel, user);
  }
  if ((hello.transports & kBuiltTransports) == 0) {
    return Turn(*channel, Code::kUnsupported,
                "client and server have no transport in common: install the same release on both "
                "sides");
  }
  if (hello.role != LinkRole::kLog || hello.session != SessionId{}) {
    return AdmitAgain(std::move(channel), heard, is_tls);
  }
  const std::string identity = channel->PeerIdentity();
  if (identity.empty() && is_tls && !options_.tls.authorities.empty()) {
    return Refuse(*channel, {Code::kRefused,
                             "the certificate names nobody: issue one with a URI or a common name, "
                             "of at most 240 bytes"});
  }
  // A pool's lease stands in the place of the token.
  if (pool_.is_in_pool() || options_.tokens.empty()) {
    const std::string tenant = identity.empty() ? kOpenTenant : CertificateTenant(identity);
    return AdmitNew(std::move(channel), {hello, heard.AcceptAnyone(), tenant, identity, is_tls});
  }
  std::optional<ReceivedHello::Accepted> accepted = heard.AcceptToken(options_.tokens);
  if (!accepted) {
    return Refuse(*channel,
                  {Code::kRefused,
                   "the token is wrong: set FARCALL_TOKEN or FARCALL_TOKEN_FILE to the server's"});
  }
  const std::string tenant =
      identity.empty() ? accepted->token->Tenant() : CertificateTenant(identity);
  AdmitNew(std::move(channel), {hello, accepted->keys, tenant, identity, is_tls});
}

// Of a connection by the socket of shm://.
Status Supervisor::CheckUser(const Channel& channel) const {
  const std::optional<uint32_t> user = channel.PeerUser();
  const std::vector<uint32_t>& users = options_.shm_users;
  if (!user || users.empty() || std::find(users.begin(), users.end(), *user) != users.end()) {
    return {};
  }
  return {Code::kRefused, "user " + std::to_string(*user) +
                              " may not use this server's shared memory: --shm-users names others; "
                              "use its tcp:// or tls:// endpoint"};
}

void Supervisor::AdmitNew(std::unique_ptr<Channel> channel, const Client& client) {
  if (HasFeature(client.hello, SessionFeature::kQuery)) {
    return AnswerQuery(std::move(channel), client);
  }
  Status started;
  std::optional<quota::ClaimGrant> grant;
  const std::string counted =
      pool_.is_in_pool() ? "" : CountedAs(client, options_.tokens.size(), *channel);
  {
    std::lock_guard lock(mutex_);
    started = CheckRoom(counted);
    if (started.ok() && pool_.is_in_pool()) {
      Result<quota::ClaimGrant> granted = pool_.Admit(client.hello.lease);
      started = granted.status();
      if (granted.ok()) {
        grant = std::move(*granted);
      }
    }
  }
  const quota::ClaimGrant* claim = grant ? &*grant : nullptr;
  // The disk is asked, and a daemon may have to be started: nobody else waits meanwhile.
  Folders folders = started.ok() ? FoldersOf(TenantOf(client.tenant, claim)) : Folders();
  std::string group = started.ok() ? MpsGroupOf(claim) : "";
  if (!group.empty()) {
    started = EnsureMps(group, claim);
  }
  {
    std::lock_guard lock(mutex_);
    if (started.ok()) {
      started = CheckRoom(counted);
    }
    if (started.ok()) {
      started = StartSession(*channel, client, claim, folders);
    }
    if (!started.ok() && grant) {
      pool_.Leave(grant->claim);
    }
  }
  if (!started.ok()) {
    return Refuse(*channel, started);
  }
  channel->Abandon();  // the worker has it now
}

Status Supervisor::CheckRoom(const std::string& counted) const {
  if (draining_) {
    return {Code::kUnavailable,
            "the server is draining and takes no new sessions; connect to another server, or wait "
            "until "
            "this one has been started again"};
  }
  if (workers_.size() >= options_.max_sessions) {
    return {Code::kUnavailable, "the server is full: " + std::to_string(workers_.size()) +
                                    " sessions of " + std::to_string(options_.max_sessions)};
  }
  const auto held =
      static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
        return entry.second->counted == counted;
      }));
  if (!counted.empty() && held >= options_.max_tenant_sessions) {
    return {Code::kUnavailable, counted + " has " + std::to_string(held) + " sessions of " +
                                    std::to_string(options_.max_tenant_sessions) +
                                    " here; --max-tenant-sessions allows more"};
  }
  if (swap_ != nullptr && !swap_->takes_more()) {
    return {Code::kUnavailable,
            "the server swaps memory most of its time: it takes no new sessions until less of it "
            "is wanted"};
  }
  return {};
}

Supervisor::Worker* Supervisor::Find(const SessionId& session) {
  for (auto& [control, worker] : workers_) {
    if (worker->session == session) {
      return worker.get();
    }
  }
  return nullptr;
}

// What a client hears that comes back for a session that has ended. Its cause is for whoever shows
// the session's key.
Status Supervisor::WhyOver(const ReceivedHello& heard) {
  const EndedSessions::Ended* ended = ended_.Find(heard.hello().session, Clock::now());
  const bool is_its_client = ended != nullptr && heard.AcceptSession(ended->key).has_value();
  return {Code::kRefused,
          is_its_client ? "the session has ended: " + ended->cause + "; start the program again"
                        : "the session has ended; start the program again"};
}

Status Supervisor::CheckSame(const Worker& worker, const Channel& channel, bool is_tls) {
  if (worker.is_tls != is_tls) {
    return {Code::kRefused, worker.is_tls ? "the session uses TLS, and this connection does not"
                                          : "this connection uses TLS, and the session does not"};
  }
  if (worker.identity != channel.PeerIdentity()) {
    return {Code::kRefused, "the certificate is of " + Quoted(channel.PeerIdentity()) +
                                ", and the session's is of " + Quoted(worker.identity)};
  }
  return {};
}

void Supervisor::AdmitAgain(std::unique_ptr<Channel> channel, const ReceivedHello& heard,
                            bool is_tls) {
  const Hello& hello = heard.hello();
  Status passed;
  {
    std::lock_guard lock(mutex_);
    Worker* worker = Find(hello.session);
    std::optional<ExchangeKeys> keys;
    if (worker != nullptr) keys = heard.AcceptSession(worker->key);
    if (worker == nullptr) {
      passed = WhyOver(heard);
    } else if (!keys) {
      passed = {Code::kRefused, "the session key is wrong"};
    } else if (Status same = CheckSame(*worker, *channel, is_tls); !same.ok()) {
      passed = same;
    } else if (Result<std::vector<std::byte>> handed = channel->HandOver(); !handed.ok()) {
      passed = handed.status();
    } else {
      const int control = worker->process.control;
      const control::ChannelState state = control::ToChannelState(*handed);
      passed = hello.role == LinkRole::kLog
                   ? control::Send(control,
                                   control::Resume{.received_seq = hello.received_seq,
                                                   .received_chunks = hello.received_chunks,
                                                   .answer = keys->answer,
                                                   .state = state},
                                   {channel->Descriptor()})
                   : control::Send(
                         control,
                         control::Lane{.lane = hello.lane, .answer = keys->answer, .state = state},
                         {channel->Descriptor()});
    }
  }
  if (!passed.ok()) {
    return Refuse(*channel, passed);
  }
  channel->Abandon();
}

}  // namespace farcall::server
