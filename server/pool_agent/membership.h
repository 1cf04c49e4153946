// SPDX-License-Identifier: Apache-2.0
// What makes an agent's host a member of its pool: a credential, given out for a join token and
// kept in a file of this user, so that a restarted server needs no other token.
#pragma once

#include <string>

#include "pool/client/rest_client.h"
#include "proto/status.h"

namespace farcall::pool {

class Membership {
 public:
  // Where credentials are kept, made for this user alone; "": nowhere.
  static std::string MakeFolder();

  // `pool`: its token is the join token; empty: none.
  explicit Membership(PoolAddress pool) : pool_(std::move(pool)) {}

  // Joins under that name, if that is still to be done and there is a token for it.
  //   Errors  the pool's (one line); what is shown then is what there was
  Status Join(const std::string& host);
  // What the agent shows; "": nothing.
  const std::string& credential() const { return credential_; }
  // The pool does not know it.
  void Reject() { is_rejected_ = true; }

 private:
  Status Keep(const std::string& host) const;

  const PoolAddress pool_;
  std::string host_, credential_;
  bool is_rejected_ = false;
};

}  // namespace farcall::pool
