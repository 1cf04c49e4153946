// SPDX-License-Identifier: Apache-2.0
// What the commands say of themselves with --help: of it completions and man pages are made, so
// that neither knows a flag that is not there.
#pragma once

#include <string>
#include <vector>

namespace farcall::cli {

struct FlagHelp {
  std::vector<std::string> names;  // "-v", "--verbose"
  std::string value;               // "TEXT"; "": it takes none
  std::string does;
};

struct CommandHelp {
  std::vector<std::string> path;  // {"pool", "request"}; empty: `farcall` itself
  std::string does, text;         // its line in the list of commands; its whole help
  std::vector<FlagHelp> flags;
  std::vector<std::string> below;  // its subcommands

  // "farcall pool request", with `gap` between the words.
  std::string Name(const std::string& gap = " ") const;
};

// All commands, each before those below it. Programs beside this one are asked for theirs.
std::vector<CommandHelp> ReadHelpTree();

}  // namespace farcall::cli
