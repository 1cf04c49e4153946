// SPDX-License-Identifier: Apache-2.0
// Join tokens, and how a host joins by one.
#include "pool/access/unix_time.h"
#include "pool/service/service.h"
#include "pool/service/service_parts.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"
#include "proto/printable.h"

namespace farcall::pool {

namespace {

constexpr int64_t kJoinSeconds = 3600, kMaxJoinSeconds = 30 * 24 * 3600;
constexpr size_t kSecretDigits = 64, kMaxNote = 128;

std::string HashOf(std::string_view secret) {
  return HexOf(Sha256(BytesOf(secret)));
}

pb::JoinToken ToProto(const std::string& hash, const JoinToken& token) {
  pb::JoinToken told;
  told.set_id(IdOfJoinToken(hash));
  told.set_host(token.host);
  told.set_expires(token.expires_unix);
  told.set_max_uses(token.max_uses);
  told.set_uses(token.uses);
  told.set_created(token.created_unix);
  told.set_made_by(token.made_by);
  told.set_note(token.note);
  return told;
}

}  // namespace

Outcome Service::NewJoinToken(const Caller& caller, const pb::JoinTokenRequest& request,
                              pb::JoinToken* told) {
  int64_t seconds = request.expires_s() == 0 ? kJoinSeconds : request.expires_s();
  if (seconds < 1 || seconds > kMaxJoinSeconds)
    return Failed(
        400, "invalid",
        "expires_s " + std::to_string(seconds) + ": 1 to " + std::to_string(kMaxJoinSeconds),
        "expires_s");
  if (request.note().size() > kMaxNote)
    return Failed(400, "invalid",
                  "note of " + std::to_string(request.note().size()) + " characters: at most " +
                      std::to_string(kMaxNote),
                  "note");
  const int64_t now = UnixSeconds();
  const std::string secret = RandomHex(kSecretDigits), hash = HashOf(secret);
  JoinToken token;
  token.host = request.host();
  token.expires_unix = now + seconds;
  token.max_uses = request.max_uses() == 0 ? 1 : request.max_uses();
  token.created_unix = now;
  token.made_by = NameOf(caller);
  token.note = Printable(request.note(), kMaxNote);
  Effects effects = controller_->Apply(MakeJoinToken{hash, token, now});
  if (effects.refusal) return Of(*effects.refusal);
  *told = ToProto(hash, token);
  told->set_token(secret);
  return {};
}

// By their hash, of which the page token is one.
Outcome Service::ListJoinTokens(const Caller&, const pb::ListJoinTokensRequest& request,
                                pb::JoinTokenList* list) {
  const uint32_t limit = PageOf(request.limit());
  const int64_t now = UnixSeconds();
  controller_->Read([&](const Core& core, Ms) {
    for (auto at = core.join_tokens().upper_bound(request.page_token());
         at != core.join_tokens().end(); ++at) {
      if (at->second.expires_unix < now) continue;
      if (list->join_tokens_size() == static_cast<int>(limit)) {
        list->set_next_page_token(std::prev(at)->first);
        return;
      }
      *list->add_join_tokens() = ToProto(at->first, at->second);
    }
  });
  return {};
}

Outcome Service::RevokeJoinToken(const Caller&, const pb::JoinTokenName& name,
                                 pb::JoinToken* told) {
  controller_->Read([&](const Core& core, Ms) {
    for (const auto& [hash, token] : core.join_tokens())
      if (IdOfJoinToken(hash) == name.id()) *told = ToProto(hash, token);
  });
  Effects effects = controller_->Apply(pool::RevokeJoinToken{name.id(), UnixSeconds()});
  return effects.refusal ? Of(*effects.refusal) : Outcome();
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

}  // namespace farcall::pool
