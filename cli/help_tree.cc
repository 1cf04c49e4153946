// SPDX-License-Identifier: Apache-2.0
#include "cli/help_tree.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "cli/programs/client_environment.h"

namespace farcall::cli {

namespace {

constexpr char kSubcommands[] = "Subcommands:";

std::string HelpOf(const std::vector<std::string>& path) {
  std::string line = "'" + OwnPath() + "'";
  for (const std::string& word : path) line += " " + word;
  std::string text;
  FILE* help = popen((line + " --help").c_str(), "r");
  if (help == nullptr) return text;
  char piece[4096];
  for (size_t got; (got = fread(piece, 1, sizeof(piece), help)) > 0;) text.append(piece, got);
  const bool is_there = pclose(help) == 0;
  return is_there ? text : "";
}

bool IsIndented(const std::string& line) {
  return line.size() > 2 && line[0] == ' ' && line[1] == ' ';
}

std::string WithoutSpace(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first);
}

// "  -v,--verbose TEXT REQUIRED   what it does", and what follows it.
FlagHelp ReadFlag(const std::string& line) {
  FlagHelp flag;
  std::istringstream words(line);
  std::string names;
  words >> names;
  for (size_t at = 0; at <= names.size();) {
    const size_t comma = std::min(names.find(',', at), names.size());
    flag.names.push_back(names.substr(at, comma - at));
    at = comma + 1;
  }
  const size_t end = line.find(names) + names.size();
  const size_t gap = line.find("  ", end);
  const std::string value = line.substr(end, gap == line.npos ? line.npos : gap - end);
  flag.value = WithoutSpace(value.substr(0, value.find(':')));
  flag.value = flag.value.substr(0, flag.value.find(' '));
  flag.does = gap == line.npos ? "" : WithoutSpace(line.substr(gap));
  return flag;
}

void ReadInto(std::vector<std::string> path, const std::string& does,
              std::vector<CommandHelp>* all) {
  constexpr size_t kDeepest = 3;
  CommandHelp command{std::move(path), does, "", {}, {}};
  command.text = HelpOf(command.path);
  std::vector<std::string> told;
  std::istringstream lines(command.text);
  bool in_subcommands = false;
  for (std::string line; std::getline(lines, line);) {
    if (!IsIndented(line)) {
      in_subcommands = line == kSubcommands;
    } else if (in_subcommands && line[2] != ' ') {
      std::istringstream words(line);
      std::string name;
      words >> name;
      command.below.push_back(name);
      told.push_back(WithoutSpace(line.substr(2 + name.size())));
    } else if (line[2] == '-') {
      command.flags.push_back(ReadFlag(line));
    } else if (!in_subcommands && line[2] == ' ' && !command.flags.empty()) {
      std::string& text = command.flags.back().does;
      text += (text.empty() ? "" : " ") + WithoutSpace(line);
    }
  }
  const std::vector<std::string> own = command.path, below = command.below;
  all->push_back(std::move(command));
  for (size_t i = 0; i < below.size() && own.size() < kDeepest; ++i) {
    std::vector<std::string> next = own;
    next.push_back(below[i]);
    ReadInto(next, told[i], all);
  }
}

}  // namespace

std::string CommandHelp::Name(const std::string& gap) const {
  std::string name = "farcall";
  for (const std::string& word : path) name += gap + word;
  return name;
}

std::vector<CommandHelp> ReadHelpTree() {
  std::vector<CommandHelp> all;
  ReadInto({}, "CUDA programs on a GPU of another machine", &all);
  return all;
}

}  // namespace farcall::cli
