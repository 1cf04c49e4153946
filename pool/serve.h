// SPDX-License-Identifier: Apache-2.0
// `farcall pool serve`: store, core and addresses in one process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pool/core/core.h"
#include "pool/oidc/provider.h"
#include "proto/handshake/token.h"
#include "proto/status.h"
#include "transport/tls/tls_session.h"

namespace farcall::pool {

struct PoolServeOptions {
  std::string listen = "127.0.0.1:7718";  // host:port of pool://
  std::string rest = "127.0.0.1:7719";
  std::string grpc = "127.0.0.1:7720";
  std::string health;  // of /healthz and /readyz; empty: REST's, 2 ports above
  std::string store;   // path of the SQLite file
  std::string record;  // a new file for all that happens (pool/record/record.h); empty: none
  std::string token;   // the operator's; also the clients', where there are no others
  std::vector<TokenVerifier> clients;                      // of their tokens: each is a tenant
  std::vector<std::string> tenant_projects = {"default"};  // where these may have claims
  bool accounts = false;  // tokens are wanted though no file has any: those that the store has
  // Called once, with the token of the first operator, where a pool that wants tokens had none.
  std::function<void(const std::string& token)> first_operator;
  std::string join_token;          // lasts; empty: hosts join by tokens that are made for each
  OidcOptions oidc;                // where people log in
  LoginReview review;              // who knows service accounts
  TlsFiles tls;                    // of all addresses but health's
  bool plaintext = false;          // other hosts may connect without TLS
  int32_t max_queue_priority = 0;  // that a tenant may ask for
  std::string preempt_webhook;     // URL that is told whose place is taken; empty: none
  Timing timing;
  Limits limits;
  SequencerPolicy sequencer;
};

// Serves until a signal; the process's exit code. `ready` is called with the REST URL and the ready
// line once all addresses are open; false ends it.
int ServePool(const PoolServeOptions& options,
              const std::function<bool(const std::string& url, const std::string& line)>& ready);

}  // namespace farcall::pool
