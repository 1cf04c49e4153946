// SPDX-License-Identifier: Apache-2.0
// `farcall completion` and `farcall man`: what shells and man read, made of the commands' own help.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/help_tree.h"

namespace farcall::cli {

namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string WordsOf(const CommandHelp& command) {
  std::vector<std::string> words = command.below;
  for (const FlagHelp& flag : command.flags)
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  return Joined(words);
}

// What a program takes behind `--` is the shell's own to complete.
std::string Bash(const std::vector<CommandHelp>& commands) {
  std::string paths, cases;
  for (const CommandHelp& command : commands) {
    const std::string path = Joined(command.path);
    if (!path.empty()) paths += (paths.empty() ? "" : " | ") + ("'" + path + "'");
    cases += "    '" + path + "') words='" + WordsOf(command) + "' ;;\n";
  }
  return "_farcall() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} path='' words='' word next i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    word=${COMP_WORDS[i]}\n"
         "    if [[ $word == -- ]]; then\n"
         "      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi\n"
         "      return\n"
         "    fi\n"
         "    next=${path:+$path }$word\n"
         "    case $next in " +
         paths +
         ") path=$next ;; esac\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "  case ${COMP_WORDS[COMP_CWORD - 1]} in\n"
         "    --device) words='auto cuda cpu dry' ;;\n"
         "    --priority) words='high normal low' ;;\n"
         "    --*file | --config | --report | --stats | --audit | --ca | --control)\n"
         "      COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "      return ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _farcall farcall\n";
}

std::string Zsh(const std::vector<CommandHelp>& commands) {
  return "#compdef farcall\nautoload -U +X bashcompinit && bashcompinit\n" + Bash(commands);
}

std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (char letter : text) {
    if (letter == '\'' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "'";
}

std::string Fish(const std::vector<CommandHelp>& commands) {
  std::string text = "complete -c farcall -f\n";
  for (const CommandHelp& command : commands) {
    std::string when = command.path.empty() ? "__fish_use_subcommand" : "";
    for (const std::string& word : command.path)
      when += (when.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
    const std::string head = "complete -c farcall -n " + Quoted(when);
    for (const CommandHelp& below : commands) {
      const bool is_below =
          below.path.size() == command.path.size() + 1 &&
          std::equal(command.path.begin(), command.path.end(), below.path.begin());
      if (is_below) text += head + " -a " + below.path.back() + " -d " + Quoted(below.does) + "\n";
    }
    for (const FlagHelp& flag : command.flags) {
      std::string line = head;
      for (const std::string& name : flag.names)
        line += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
      text += line + (flag.value.empty() ? "" : " -r") + " -d " + Quoted(flag.does) + "\n";
    }
  }
  return text;
}

// roff's own signs, as text.
std::string Roff(const std::string& text) {
  std::string out;
  for (char letter : text) {
    if (letter == '\\') {
      out += "\\e";
    } else if (letter == '-') {
      out += "\\-";
    } else {
      const bool is_command =
          (letter == '.' || letter == '\'') && (out.empty() || out.back() == '\n');
      out += is_command ? std::string("\\&") + letter : std::string(1, letter);
    }
  }
  return out;
}

std::string ManPage(const CommandHelp& command) {
  std::string page = ".TH " + command.Name("\\-") + " 1 \"\" \"farcall " FARCALL_VERSION "\"\n";
  page += ".SH NAME\n" + command.Name("\\-") + " \\- " + Roff(command.does) + "\n";
  page += ".SH SYNOPSIS\n.B " + command.Name() + "\n[options]" +
          (command.below.empty() ? "" : " command") + "\n";
  page += ".SH DESCRIPTION\n.nf\n" + Roff(command.text);
  if (page.back() != '\n') page += '\n';
  page += ".fi\n.SH EXIT STATUS\n0: done; 1: failed; 2: a flag or setting that must not be.\n";
  if (!command.below.empty()) {
    page += ".SH SEE ALSO\n";
    for (const std::string& below : command.below)
      page += ".BR " + command.Name("\\-") + "\\-" + below + " (1)\n";
  }
  return page;
}

int WriteManPages(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const CommandHelp& command : ReadHelpTree()) {
    const std::string path = folder + "/" + command.Name("-") + ".1";
    std::ofstream file(path);
    file << ManPage(command);
    file.close();
    if (file) continue;
    std::fprintf(stderr, "farcall man: %s: %s\n", path.c_str(), std::strerror(errno));
    return 1;
  }
  return 0;
}

}  // namespace

void AddCompletionCommand(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Prints the completion for a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Example: farcall completion bash > /etc/bash_completion.d/farcall\n"
      "         farcall completion fish > ~/.config/fish/completions/farcall.fish");
  command->callback([shell, &exit_code] {
    const std::vector<CommandHelp> commands = ReadHelpTree();
    const std::string text = *shell == "bash"  ? Bash(commands)
                             : *shell == "zsh" ? Zsh(commands)
                                               : Fish(commands);
    std::fputs(text.c_str(), stdout);
    exit_code = 0;
  });
  auto folder = std::make_shared<std::string>();
  CLI::App* man = app.add_subcommand("man", "Writes the man pages into a folder");
  man->add_option("folder", *folder, "folder, such as /usr/local/share/man/man1")->required();
  man->footer("Example: farcall man ~/.local/share/man/man1");
  man->callback([folder, &exit_code] { exit_code = WriteManPages(*folder); });
}

}  // namespace farcall::cli
