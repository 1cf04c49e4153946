// SPDX-License-Identifier: Apache-2.0
// How hosts come in: a token lets in one host, or as many as it was made for. From then on a host's
// name belongs to whoever shows the credential that was given out for the token.
#include <algorithm>

#include "pool/core/core.h"

namespace farcall::pool {

namespace {

constexpr uint32_t kMaxUses = 1000;

}  // namespace

void Core::On(const MakeJoinToken& event) {
  if (!event.token.host.empty() && !IsHostName(event.token.host))
    return Refuse(RefusalCode::kInvalid, "a host's name has 1 to 64 letters, digits and . _ -",
                  "host");
  if (event.token.max_uses < 1 || event.token.max_uses > kMaxUses)
    return Refuse(
        RefusalCode::kInvalid,
        "max_uses " + std::to_string(event.token.max_uses) + ": 1 to " + std::to_string(kMaxUses),
        "max_uses");
  for (auto at = join_tokens_.begin(); at != join_tokens_.end();) {
    if (at->second.expires_unix >= event.now_unix) {
      ++at;
      continue;
    }
    effects_->join_tokens.insert(at->first);
    at = join_tokens_.erase(at);
  }
  if (join_tokens_.size() >= limits_.join_tokens)
    return Refuse(RefusalCode::kTooMany,
                  std::to_string(join_tokens_.size()) + " join tokens wait to be used", "",
                  "farcall pool join-token revoke; they expire by themselves too");
  join_tokens_[event.hash] = event.token;
  effects_->join_tokens.insert(event.hash);
  Say("join_token_made", "", event.token.host, "");
}

void Core::On(const RevokeJoinToken& event) {
  auto token = std::find_if(join_tokens_.begin(), join_tokens_.end(),
                            [&](const auto& one) { return IdOfJoinToken(one.first) == event.id; });
  if (token == join_tokens_.end() || token->second.expires_unix < event.now_unix)
    return Refuse(
        RefusalCode::kNotFound,
        "there is no join token '" + event.id.substr(0, 64) + "', or it has expired or was used",
        "id", "farcall pool join-token list shows them");
  Say("join_token_revoked", "", token->second.host, event.id);
  effects_->join_tokens.insert(token->first);
  join_tokens_.erase(token);
}

void Core::On(const JoinHost& event) {
  if (!IsHostName(event.host))
    return Refuse(RefusalCode::kInvalid, "a host's name has 1 to 64 letters, digits and . _ -",
                  "host", "give it one with --pool-name");
  auto token = join_tokens_.find(event.token_hash);
  const bool is_lasting = event.token_hash.empty();
  const bool is_good =
      is_lasting || (token != join_tokens_.end() && token->second.expires_unix >= event.now_unix);
  // Who knows no token learns nothing of names either.
  if (!is_good)
    return Refuse(RefusalCode::kDenied,
                  "the join token is wrong, was used up or revoked, or has expired", "token",
                  "farcall pool join-token new makes another");
  const std::string named = is_lasting ? "" : token->second.host;
  if (!named.empty() && named != event.host)
    return Refuse(RefusalCode::kDenied, "the join token is for another host name", "host",
                  "--pool-name gives this host its name");
  auto known = hosts_.find(event.host);
  if (named.empty() && known != hosts_.end() && !known->second.credential.empty())
    return Refuse(
        RefusalCode::kConflict,
        "host '" + event.host +
            "' has joined before and has lost its credential, or this "
            "is another host",
        "host",
        "farcall pool join-token new --host " + event.host + ", or another name with --pool-name");
  if (known == hosts_.end() && hosts_.size() >= limits_.hosts)
    return Refuse(RefusalCode::kTooMany,
                  "the pool has " + std::to_string(hosts_.size()) + " hosts, which is all it can",
                  "host");
  Host& host = hosts_[event.host];
  if (host.name.empty()) {
    host.name = event.host;
    host.heard = now_;
    FileHost(host);
  }
  host.credential = event.credential;
  Store(host);
  if (!is_lasting) {
    effects_->join_tokens.insert(event.token_hash);
    if (++token->second.uses >= token->second.max_uses) join_tokens_.erase(token);
  }
  Say("host_joined", "", host.name, "");
}

}  // namespace farcall::pool
