// SPDX-License-Identifier: Apache-2.0
#include "pool/data_port.h"

#include <algorithm>
#include <array>

#include "proto/hex.h"
#include "proto/printable.h"
#include "proto/session_features.h"
#include "transport/handshake.h"

namespace farcall::pool {

namespace {

constexpr std::chrono::seconds kLongestWait(60);
constexpr Ms kLook = 250;           // how often a waiting client is looked after
constexpr int kMostWaiting = 1024;  // a thread each
constexpr Ms kOnDisconnect = 30'000;

std::vector<TokenVerifier> VerifiersOf(const std::string& token) {
  if (token.empty()) return {};
  return {TokenKeys(token).verifier()};
}

// Knowing a run's token lets a process join it, so the pool keeps its hash only.
std::string RunName(const Hello& hello) {
  if (hello.vgpu.empty()) return "";
  Hash256 hash = Sha256(std::as_bytes(std::span(hello.vgpu)));
  return "run-" + HexOf(std::span(hash).first(16));
}

Status ToStatus(const Outcome& outcome) {
  return {outcome.http == 404 ? Code::kRefused : Code::kInvalid, outcome.error.message()};
}

bool HasGone(Channel& channel) {
  std::array<std::byte, 64> rest;
  Result<size_t> got = channel.TryReceive(rest);
  return !got.ok() || *got != 0;  // nothing may come before the answer
}

}  // namespace

DataPort::DataPort(Service* service, const std::string& token)
    : service_(service),
      tokens_(VerifiersOf(token)),
      door_(!tokens_.empty(), [this](std::unique_ptr<Channel> channel, const HeardHello& heard) {
        Admit(std::move(channel), heard);
      }) {}

Status DataPort::Open(const std::string& url) {
  Result<std::unique_ptr<Listener>> listener = Listen(url);
  if (!listener.ok()) return listener.status();
  std::string bound = (*listener)->Url();
  address_ = bound.substr(bound.find("://") + 3);
  door_.Listen(std::move(*listener));
  return {};
}

Result<Redirect> DataPort::Judge(Channel& channel, const HeardHello& heard, AnswerKey* answer) {
  const Hello& hello = heard.hello();
  if (hello.role != LinkRole::kLog || hello.session != SessionId{})
    return Status(Code::kRefused, "this is a pool: sessions are its hosts'");
  std::optional<HeardHello::Accepted> accepted = heard.AcceptToken(tokens_);
  if (!tokens_.empty() && !accepted)
    return Status(Code::kRefused,
                  "the token is wrong: set FARCALL_TOKEN or FARCALL_TOKEN_FILE to the pool's");
  *answer = accepted ? accepted->keys.answer : heard.AcceptAnyone().answer;
  if (!HasFeature(hello, SessionFeature::kRedirect))
    return Status(Code::kUnsupported, "this client knows no pools: install a newer release");
  if (HasFeature(hello, SessionFeature::kPoolDoors)) return Redirect{service_->doors(), "", ""};
  Result<Redirect> found(
      Status(Code::kUnavailable, std::to_string(kMostWaiting) + " programs wait already"));
  if (waiting_.fetch_add(1) < kMostWaiting) found = Find(channel, hello);
  waiting_.fetch_sub(1);
  return found;
}

void DataPort::Admit(std::unique_ptr<Channel> channel, const HeardHello& heard) {
  AnswerKey answer;
  Result<Redirect> found = Judge(*channel, heard, &answer);
  auto deadline = Clock::now() + std::chrono::seconds(1);
  if (found.ok())
    (void)SendRedirect(*channel, answer, *found, deadline);
  else
    (void)SendRefuse(*channel, {found.status().code(), found.status().message()}, deadline);
  // Let the other side read it before the connection is reset.
  std::array<std::byte, 64> rest;
  while (Clock::now() < deadline && channel->WaitReadable(deadline))
    if (!channel->TryReceive(rest).ok()) break;
}

Result<std::string> DataPort::ClaimOf(const Hello& hello, bool* is_own) {
  *is_own = hello.claim.empty();
  if (!*is_own) return hello.claim;
  Ask ask;
  ask.count = hello.devices == 0 ? 1 : hello.devices;
  ask.memory_bytes = hello.quota.memory_bytes;
  ask.share_milli = hello.quota.share_milli;
  ask.limit_milli = hello.quota.limit_milli;
  ask.priority = hello.quota.priority;
  ask.net_bytes_per_s = hello.quota.net_bytes_per_s;
  ask.spread = service_->spread();
  ask.on_disconnect_ms = kOnDisconnect;
  std::string id, owner = Printable(hello.user) + "@" + Printable(hello.host);
  Outcome asked = service_->ClaimOfRun(RunName(hello), owner, ask, &id);
  if (!asked.ok()) return ToStatus(asked);
  return id;
}

std::optional<Redirect> DataPort::Lead(const std::string& id) {
  std::optional<Controller::Seat> seat = service_->controller().FindSeat(id);
  if (!seat) return std::nullopt;
  pb::Connection connection;
  service_->Lead(*seat, &connection);
  return Redirect{std::move(seat->endpoints), connection.token(), id};
}

Result<Redirect> DataPort::Find(Channel& channel, const Hello& hello) {
  bool is_own = false;
  Result<std::string> id = ClaimOf(hello, &is_own);
  if (!id.ok()) return id.status();
  auto give_up = [&](const std::string& why) {
    if (is_own) service_->controller().Apply(ReleaseClaim{*id, why, {}});
  };
  auto end = Clock::now() + kLongestWait;
  while (true) {
    if (std::optional<Redirect> led = Lead(*id)) return std::move(*led);
    std::optional<Claim> claim = service_->controller().WaitBound(*id, kLook);
    if (!claim) return Status(Code::kRefused, "there is no claim '" + Printable(*id) + "'");
    if (IsUsable(claim->state)) continue;
    if (IsOver(claim->state))
      return Status(Code::kRefused, "claim " + *id + " is " + std::string(ToText(claim->state)) +
                                        ": " + claim->reason);
    pb::ClaimName name;
    name.set_id(*id);
    pb::Explanation told;
    service_->Explain(name, &told);
    bool never = claim->state == ClaimState::kPending && told.gpus() != 0 && !told.could_ever_fit();
    if (HasGone(channel)) {
      give_up("its client has gone");
      return Status(Code::kDisconnected, "the client has gone");
    }
    if (!never && Clock::now() < end) continue;
    give_up("its client has waited long enough");
    return Status(Code::kQuotaExceeded, "no place in the pool: " + told.why());
  }
}

}  // namespace farcall::pool
