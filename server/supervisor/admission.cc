// SPDX-License-Identifier: Apache-2.0
// Who is let in: proofs, capacity. The start of a session: session_start.cc.
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "listener/source.h"
#include "proto/handshake/session_features.h"
#include "proto/printable.h"
#include "server/supervisor/supervisor.h"
#include "transport/handshake.h"
#include "transport/tcp/tcp_channel.h"
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

void Supervisor::Refuse(Channel& channel, const Status& why) {
  if (std::optional<uint64_t> others = refusals_.Take(Clock::now())) {
    const std::string more =
        *others == 0 ? ""
                     : "; since the last line " + std::to_string(*others) + " others were, too";
    spdlog::warn("{}: refused: {}{}", channel.PeerName(), why.message(), more);
    nlohmann::json fields = {{"from", channel.PeerName()}, {"why", why.message()}};
    if (const std::string identity = channel.PeerIdentity(); !identity.empty())
      fields["certificate"] = Printable(identity, kMaxMessageBytes);
    if (*others != 0) fields["others"] = *others;
    audit_.Note("session_refused", std::move(fields));
  }
  Turn(channel, why.code(), why.message());
}

void Supervisor::Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard, bool is_tls) {
  const Arrival arrival = {channel->PeerName(),
                           channel->PeerIdentity(),
                           channel->PeerUser(),
                           is_tls,
                           IsLoopbackPeer(channel->Descriptor()),
                           channel->RoundTrip()};
  if (!options_.tcp_congestion.empty())  // checked at the start
    (void)SetCongestionControl(channel->Descriptor(), options_.tcp_congestion);
  const std::string tls_url = tls_.empty() ? "" : tls_.front()->Url();
  if (Status checked = policy_.CheckArrival(arrival, tls_url); !checked.ok())
    return Refuse(*channel, checked);
  const Hello& hello = heard.hello();
  if ((hello.transports & kBuiltTransports) == 0) {
    return Turn(*channel, Code::kUnsupported,
                "client and server have no transport in common: install the same release on both "
                "sides");
  }
  if (hello.role != LinkRole::kLog || hello.session != SessionId{})
    return AdmitAgain(std::move(channel), heard, arrival);
  // A pool's lease stands in the place of the token.
  if (pool_.is_in_pool() || options_.tokens.empty()) {
    const std::string tenant =
        arrival.identity.empty() ? kOpenTenant : CertificateTenant(arrival.identity);
    return AdmitNew(std::move(channel), {hello, heard.AcceptAnyone(), tenant, arrival});
  }
  std::optional<ReceivedHello::Accepted> accepted = heard.AcceptToken(options_.tokens);
  if (!accepted) {
    return Refuse(*channel,
                  {Code::kRefused,
                   "the token is wrong: set FARCALL_TOKEN or FARCALL_TOKEN_FILE to the server's"});
  }
  const std::string tenant =
      arrival.identity.empty() ? accepted->token->Tenant() : CertificateTenant(arrival.identity);
  AdmitNew(std::move(channel), {hello, accepted->keys, tenant, arrival});
}

void Supervisor::AdmitNew(std::unique_ptr<Channel> channel, const Client& client) {
  if (HasFeature(client.hello, SessionFeature::kQuery))
    return AnswerQuery(std::move(channel), client);
  Status started;
  std::optional<quota::ClaimGrant> grant;
  const std::string counted =
      pool_.is_in_pool() ? "" : policy_.CountedAs(client.arrival, client.tenant);
  {
    std::lock_guard lock(mutex_);
    started = CheckRoom(counted);
    if (started.ok() && pool_.is_in_pool()) {
      Result<quota::ClaimGrant> granted = pool_.Admit(client.hello.lease);
      started = granted.status();
      if (granted.ok()) grant = std::move(*granted);
    }
  }
  const quota::ClaimGrant* claim = grant ? &*grant : nullptr;
  // The disk is asked, and a daemon may have to be started: nobody else waits meanwhile.
  SessionFolders folders;
  std::string group;
  if (started.ok()) {
    folders = OpenSessionFolders(image_base_, TenantOf(client.tenant, claim), devices_.choice.kind,
                                 places_.users.separate());
    group = placement_.MpsGroupFor(claim);
  }
  if (!group.empty()) started = mps_.Ensure(group, claim);
  {
    std::lock_guard lock(mutex_);
    if (started.ok()) started = CheckRoom(counted);
    if (started.ok()) started = StartSession(*channel, client, claim, folders);
    if (!started.ok() && grant) pool_.Leave(grant->claim);
  }
  if (!started.ok()) return Refuse(*channel, started);
  channel->Abandon();  // the worker has it now
}

Status Supervisor::CheckRoom(const std::string& counted) const {
  Occupancy occupancy;
  occupancy.is_draining = draining_;
  occupancy.sessions = sessions_.size();
  occupancy.tenant_sessions = sessions_.CountCounted(counted);
  occupancy.has_room_in_memory = swap_.takes_more();
  return policy_.CheckRoom(occupancy, counted);
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

void Supervisor::AdmitAgain(std::unique_ptr<Channel> channel, const ReceivedHello& heard,
                            const Arrival& arrival) {
  const Hello& hello = heard.hello();
  Status passed;
  bool is_known = false;  // why the session ended has been told
  {
    std::lock_guard lock(mutex_);
    WorkerSession* worker = sessions_.Find(hello.session);
    std::optional<ExchangeKeys> keys;
    if (worker != nullptr) keys = heard.AcceptSession(worker->key);
    if (worker == nullptr) {
      passed = WhyOver(heard);
      const EndedSessions::Ended* ended = ended_.Find(hello.session, Clock::now());
      is_known = ended != nullptr && heard.AcceptSession(ended->key).has_value();
    } else if (!keys) {
      passed = {Code::kRefused, "the session key is wrong"};
    } else if (Status same = AdmissionPolicy::CheckSame(worker->arrival, arrival); !same.ok()) {
      passed = same;
    } else if (Status charged = ChargeRings(*channel, worker); !charged.ok()) {
      passed = charged;
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
      // It has just ended. Who comes again hears why.
      if (passed.code() == Code::kDisconnected) {
        passed = {Code::kDisconnected, "the session's worker is ending"};
        is_known = true;
      }
    }
  }
  // A lane that a program dialled before it ended, or a client that comes back: no intruder.
  if (!passed.ok() && is_known) {
    spdlog::debug("{}: of an ended session: {}", channel->PeerName(), passed.message());
    return Turn(*channel, passed.code(), passed.message());
  }
  if (!passed.ok()) return Refuse(*channel, passed);
  channel->Abandon();
}

}  // namespace farcall::server
