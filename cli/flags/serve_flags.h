// SPDX-License-Identifier: Apache-2.0
// The flags of `farcall serve`: one for each setting of the server (serve_settings.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proto/status.h"
#include "server/supervisor/options/serve_options.h"

namespace farcall::cli {

struct ServeFlags {
  // As typed, by the setting's kind.
  struct Typed {
    std::string text;
    std::vector<std::string> list;
    uint32_t number = 0;
    bool flag = false;
  };
  std::string config, report;
  std::map<std::string_view, Typed> typed;  // by the setting's name
};

// `flags` has to live as long as `command`.
void AddServeFlags(CLI::App* command, ServeFlags* flags);
// Lays what was typed over the options; an empty text counts as not typed.
//   Errors  kInvalid (names the flag)
Status ApplyServeFlags(const CLI::App& command, const ServeFlags& flags,
                       server::ServeOptions* options);

}  // namespace farcall::cli
