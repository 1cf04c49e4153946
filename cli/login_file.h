// SPDX-License-Identifier: Apache-2.0
// What `farcall login` keeps: where this user's pool is, and the token for it. The token is the
// first line, so that FARCALL_TOKEN_FILE may name the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/status.h"

namespace farcall::cli {

struct Login {
  std::string url, token;
  std::string ca;    // absolute path; empty: none was given
  std::string data;  // pool://host:port, as the pool says it
};

// $XDG_CONFIG_HOME/farcall/pool-login, or ~/.config/farcall/pool-login; "": there is no home.
std::string LoginPath();
// What the file holds; nullopt: there is none.
//   Errors  kInvalid (others may read it, or it cannot be read)
Result<std::optional<Login>> ReadLogin();
// Whether a text is a token by its characters and length.
bool IsToken(const std::string& text);
// Whether an endpoint is that pool's: its host, and on this machine, where there may be several
// pools, its port.
bool IsOfPool(const Login& login, const std::string& endpoint);

}  // namespace farcall::cli
