// SPDX-License-Identifier: Apache-2.0
#include "pool/data_port/data_port.h"

#include <algorithm>

#include "proto/handshake/session_features.h"
#include "proto/hex.h"
#include "proto/log_line.h"
#include "proto/printable.h"
#include "transport/handshake.h"

namespace farcall::pool {

namespace {

constexpr std::chrono::seconds kLongestWait(60);
constexpr Ms kOnDisconnect = 30'000;

// Knowing a run's token lets a process join it, so the pool keeps its hash only.
std::string RunName(const Hello& hello) {
  if (hello.vgpu.empty()) return "";
  Hash256 hash = Sha256(std::as_bytes(std::span(hello.vgpu)));
  return "run-" + HexOf(std::span(hash).first(16));
}

Status ToStatus(const Outcome& outcome) {
  return {outcome.http == 404 ? Code::kRefused : Code::kInvalid, outcome.error.message()};
}

}  // namespace

DataPort::DataPort(Service* service, const Callers& callers)
    : service_(service),
      callers_(callers),
      waiting_(service),
      handshakes_(callers.wants_tenant_token(),
                  [this](std::unique_ptr<Channel> channel, const ReceivedHello& heard,
                         const Listener&) { Admit(std::move(channel), heard); }) {}

Status DataPort::Open(const std::string& address, const TlsFiles& tls) {
  Result<std::unique_ptr<Listener>> listener = Listen("tcp://" + address);
  if (!listener.ok()) return listener.status();
  std::string bound = (*listener)->Url();
  address_ = bound.substr(bound.find("://") + 3);
  if (tls.given()) {
    tls_port_ = std::make_unique<TlsPort>(tls, std::move(*listener), [](const std::string& why) {
      LogLine(LogSeverity::kWarn, "pool", why + "; the previous files stay");
    });
    FARCALL_TRY(tls_port_->Start());
    listener = tls_port_->TakeListener();
  }
  handshakes_.Listen(std::move(*listener));
  return {};
}

Status DataPort::Start() {
  FARCALL_TRY(waiting_.Start());
  return handshakes_.Start();
}

void DataPort::Close() {
  if (tls_port_ != nullptr) tls_port_->Stop();
  handshakes_.Stop();
  waiting_.Stop();
}

namespace {

Ask AskOf(const Hello& hello) {
  Ask ask;
  ask.count = hello.devices == 0 ? 1 : hello.devices;
  ask.memory_bytes = hello.quota.memory_bytes;
  ask.share_milli = hello.quota.share_milli;
  ask.limit_milli = hello.quota.limit_milli;
  ask.priority = hello.quota.priority;
  ask.net_bytes_per_s = hello.quota.net_bytes_per_s;
  return ask;
}

// Why no GPU could hold what a program will ask for, were all of them free; "": one could, there is
// none yet, or this HELLO asks for nothing in particular.
std::string WhyNever(Controller& controller, const Hello& hello) {
  if (hello.quota.memory_bytes == 0 && hello.devices <= 1) return "";
  Explanation plan;
  controller.Read([&](const Core& core, Ms) {
    std::optional<GangPlaces> places;
    plan = core.Plan(AskOf(hello), 0, &places);
  });
  return plan.pass.gpus == 0 || plan.pass.could_ever_fit ? "" : plan.why;
}

}  // namespace

Result<DataPort::Known> DataPort::Judge(const Channel& channel, const ReceivedHello& heard) const {
  const Hello& hello = heard.hello();
  if (hello.role != LinkRole::kLog || hello.session != SessionId{})
    return Status(Code::kRefused, "this is a pool: sessions are its hosts'");
  std::optional<ReceivedHello::Accepted> accepted = heard.AcceptToken(callers_.verifiers());
  std::vector<TokenVerifier> stored;
  if (!accepted) {
    for (const Credential& shown : hello.credentials) {
      TokenId id{};
      if (shown.kind != CredentialKind::kToken || shown.id.size() != id.size()) continue;
      std::copy(shown.id.begin(), shown.id.end(), id.begin());
      if (auto verifier = callers_.StoredVerifier(id)) stored.push_back(*verifier);
    }
    accepted = heard.AcceptToken(stored);
  }
  if (callers_.wants_tenant_token() && !accepted)
    return Status(Code::kRefused,
                  "the token is wrong, revoked or expired: set FARCALL_TOKEN or FARCALL_TOKEN_FILE "
                  "to the pool's");
  if (!HasFeature(hello, SessionFeature::kRedirect))
    return Status(Code::kUnsupported, "this client knows no pools: install a newer release");
  const std::string identity = channel.PeerIdentity();
  std::optional<Caller> caller =
      accepted ? callers_.HolderOf(*accepted->token, identity) : callers_.WithoutToken(identity);
  if (!caller)
    return Status(Code::kRefused,
                  "the certificate names nobody: issue one with a URI or a common name, of at most "
                  "240 bytes");
  return Known{accepted ? accepted->keys.answer : heard.AcceptAnyone().answer, *caller};
}

void DataPort::Admit(std::unique_ptr<Channel> channel, const ReceivedHello& heard) {
  const Hello& hello = heard.hello();
  auto refuse = [&](const Status& why) {
    (void)SendRefuse(*channel, {why.code(), why.message()}, Clock::now());
  };
  Result<Known> known = Judge(*channel, heard);
  if (!known.ok()) return refuse(known.status());
  if (HasFeature(hello, SessionFeature::kPoolAddresses)) {
    if (std::string why = WhyNever(service_->controller(), hello); !why.empty())
      return refuse({Code::kQuotaExceeded, "no place in the pool: " + why});
    (void)SendRedirect(*channel, known->answer, Redirect{service_->addresses(), "", ""},
                       Clock::now());
    return;
  }
  bool is_own = false;
  Result<std::string> claim = ClaimOf(*channel, hello, known->caller, &is_own);
  if (!claim.ok()) return refuse(claim.status());
  waiting_.Add(
      {std::move(channel), known->answer, *claim, is_own, Clock::now() + kLongestWait, {}});
}

Result<std::string> DataPort::ClaimOf(const Channel& channel, const Hello& hello,
                                      const Caller& caller, bool* is_own) {
  *is_own = hello.claim.empty();
  const Rule& rule = RuleOf(*is_own ? "claims.request" : "claims.connect");
  if (std::string why; !May(caller, rule, &why)) return Status(Code::kRefused, why);
  if (!*is_own && !service_->MayConnect(caller, hello.claim))
    return Status(Code::kRefused, "there is no claim '" + Printable(hello.claim) + "'");
  if (!*is_own) return hello.claim;
  Ask ask = AskOf(hello);
  ask.placer = Placer::kUnnamed;
  ask.on_disconnect_ms = kOnDisconnect;
  const std::string identity = channel.PeerIdentity();
  std::string id, owner = identity.empty() ? Printable(hello.user) + "@" + Printable(hello.host)
                                           : Printable(identity);
  Outcome asked = service_->ClaimOfRun(RunName(hello), owner, ask, &id, caller, channel.PeerName());
  if (!asked.ok()) return ToStatus(asked);
  return id;
}

}  // namespace farcall::pool
