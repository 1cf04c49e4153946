// SPDX-License-Identifier: Apache-2.0
// Which server a command means, by one rule for all of them, and what that server says of itself.
#pragma once

#include <string>

#include "client-shim/core/settings/settings.h"
#include "proto/handshake/handshake.h"
#include "proto/handshake/query_answer.h"
#include "proto/status.h"

namespace farcall::cli {

struct FoundServer {
  std::string url;     // written out; "": none is named and none runs here
  std::string source;  // "--endpoint", "FARCALL_ENDPOINT", a file, "the server on this machine"
  std::string token;
  std::string transport = {};                         // that is wished, as FARCALL_TRANSPORT has it
  bool is_named() const { return source[0] != 't'; }  // by a person
  // Several servers, whose devices make one list.
  bool is_list() const { return url.find(',') != std::string::npos; }
  bool is_pool() const { return url.compare(0, 4, "pool") == 0; }
};

// --endpoint (`flag`), then FARCALL_ENDPOINT, then config.toml, then the only server that this user
// runs on this machine. A pool's token may be that of `farcall login`, whose file this then sets as
// FARCALL_TOKEN_FILE.
//   Errors  kInvalid (no such endpoint; a token file that cannot be read; several servers here)
Result<FoundServer> FindServer(const std::string& flag, const client::Settings& settings);

// The same with the settings of this user's files.
//   Errors  kInvalid (a file that cannot be read, too)
Result<FoundServer> FindServer(const std::string& flag);

// FindServer without the token, of which it says nothing.
Result<FoundServer> FindServerOnly(const std::string& flag, const client::Settings& settings);

// Asks a server, or all of a list; it opens no session.
//   Errors  as Dial's and QueryHandshake's
//   is_of_this_host  if not nullptr: whether both ends of the connection are this host's
Result<QueryAnswer> AskServer(const FoundServer& server, bool* is_of_this_host = nullptr);

// What a program will ask a pool for.
struct PoolWish {
  QuotaRequest quota;
  uint32_t devices = 0;
};
// Asks a pool whether it would hear this client, and could ever hold what it will ask for.
//   Errors  the same; kQuotaExceeded (no GPU could)
//   addresses  if not nullptr: the pool's others, as REST's URL
Status AskPool(const FoundServer& pool, const PoolWish& wish = {},
               std::vector<std::string>* addresses = nullptr);

// "Tesla T4, 15.8 GiB": of the first; and how many more.
std::string DevicesText(const Welcome& welcome);
// "8.0"
std::string CapabilityText(const DeviceSnapshot& device);

}  // namespace farcall::cli
