// SPDX-License-Identifier: Apache-2.0
// How hosts come in: a token that was made for it opens once, for one name. From then on the name
// belongs to whoever shows the credential that was given out for the token.
#include "pool/core/core.h"

namespace farcall::pool {

void Core::On(const MakeJoinToken& event) {
  if (!event.token.host.empty() && !IsHostName(event.token.host))
    return Refuse(RefusalCode::kInvalid, "a host's name has 1 to 64 letters, digits and . _ -",
                  "host");
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
                  "they expire by themselves");
  join_tokens_[event.hash] = event.token;
  effects_->join_tokens.insert(event.hash);
  Say("join_token_made", "", event.token.host, "");
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
    return Refuse(RefusalCode::kDenied, "the join token is wrong, was used, or has expired",
                  "token", "farcall pool join-token new makes another");
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
  }
  host.credential = event.credential;
  Store(host);
  if (!is_lasting) {
    effects_->join_tokens.insert(event.token_hash);
    join_tokens_.erase(token);
  }
  Say("host_joined", "", host.name, "");
}

}  // namespace farcall::pool
