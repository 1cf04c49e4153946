// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line, told alike by every program of ours.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>
#include <string>

#include "settings/exit_code.h"

namespace farcall::cli {

// "serve, run, env": those for people.
inline std::string CommandsOf(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

// Help whose descriptions are wrapped, so that they are readable on a terminal of 100 columns.
class WrappedHelp final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = "  " + make_option_name(option, is_positional) + make_option_opts(option);
    std::string text;
    size_t column = kColumn;
    if (name.size() + 1 < kColumn)
      name.resize(kColumn, ' ');
    else
      name += "\n" + std::string(kColumn, ' ');
    std::istringstream words(make_option_desc(option));
    for (std::string word; words >> word; column += word.size() + 1) {
      if (column + word.size() > kWidth) {
        text += "\n" + std::string(kColumn, ' ');
        column = kColumn;
      } else if (column > kColumn) {
        text += ' ';
      }
      text += word;
    }
    return name + text + "\n";
  }

 private:
  static constexpr size_t kColumn = 30, kWidth = 98;
};

// One line on stderr with the command it was given to, unless --help or --version was asked for.
// The exit code.
inline int ExplainUsage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    name += " " + command->get_name();
  }
  std::string what = error.what();
  if (command->get_require_subcommand_min() > 0) {
    const std::vector<std::string> rest = command->remaining();
    const char* kind = rest.empty() || rest.front()[0] != '-' ? "' is no command" : "' is no flag";
    what = rest.empty() ? "a command is missing" : "'" + rest.front() + kind;
    what += "; there are " + CommandsOf(*command);
  }
  std::fprintf(stderr, "%s: %s (see %s --help)\n", name.c_str(), what.c_str(), name.c_str());
  return kExitUsage;
}

}  // namespace farcall::cli
