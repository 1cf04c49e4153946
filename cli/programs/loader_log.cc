// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/loader_log.h"

#include <string_view>

namespace farcall::cli {

namespace {

// "      1234:\t" is before each line.
std::string_view WithoutProcess(std::string_view line) {
  size_t colon = line.find(":\t");
  if (colon == std::string_view::npos) return {};
  if (line.substr(0, colon).find_first_not_of(" 0123456789") != std::string_view::npos) return {};
  line.remove_prefix(colon + 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line;
}

bool Take(std::string_view& line, std::string_view start) {
  if (line.substr(0, start.size()) != start) return false;
  line.remove_prefix(start.size());
  return true;
}

// "libcuda.so.1 [0];  needed by ./a.out [0]": the name, what follows, and whose it is.
struct FileLine {
  std::string name, event, whose;
};

std::string WithoutNamespace(std::string_view text) {
  size_t bracket = text.rfind(" [");
  return std::string(bracket == std::string_view::npos ? text : text.substr(0, bracket));
}

FileLine SplitFileLine(std::string_view line) {
  FileLine split;
  size_t semicolon = line.find(";  ");
  split.name = WithoutNamespace(line.substr(0, semicolon));
  if (semicolon == std::string_view::npos) return split;
  std::string_view event = line.substr(semicolon + 3);
  for (std::string_view start : {"needed by ", "dynamically loaded by "}) {
    if (!Take(event, start)) continue;
    split.event = start;
    split.whose = WithoutNamespace(event);
    return split;
  }
  split.event = event;
  return split;
}

class Reader {
 public:
  void Read(std::string_view line) {
    if (Take(line, "file=")) {
      File(SplitFileLine(line));
    } else if (Take(line, "search path=")) {
      size_t reason = line.rfind("\t(");
      if (reason != std::string_view::npos)
        reason_ = line.substr(reason + 2, line.size() - reason - 3);
    } else if (Take(line, "search cache=")) {
      reason_ = "ld.so.cache";
    } else if (Take(line, "trying file=")) {
      tried_ = line;
    }
  }

  std::vector<LibraryLookup> Finish() {
    Close("");
    return std::move(lookups_);
  }

 private:
  void File(FileLine line) {
    if (line.event == "generating link map") return Close(line.name);
    if (line.whose.empty()) return;
    Close("");
    open_ = true;
    current_ = {};
    current_.name = std::move(line.name);
    current_.wanted_by = std::move(line.whose);
    current_.by_dlopen = line.event == "dynamically loaded by ";
    tried_.clear();
    reason_.clear();
  }

  // `mapped`: the name that the loader goes on with, which an auditor may have changed; "" = none.
  void Close(const std::string& mapped) {
    if (!open_) return;
    open_ = false;
    if (!mapped.empty() && tried_.empty()) {
      current_.file = mapped;
      current_.reason = mapped == current_.name ? "its own path" : "the auditor";
    } else if (!mapped.empty()) {
      current_.file = tried_;
      current_.reason = reason_;
    }
    lookups_.push_back(std::move(current_));
  }

  bool open_ = false;
  LibraryLookup current_;
  std::string tried_, reason_;
  std::vector<LibraryLookup> lookups_;
};

}  // namespace

std::vector<LibraryLookup> ParseLoaderLog(std::istream& log) {
  Reader reader;
  std::string line;
  while (std::getline(log, line)) reader.Read(WithoutProcess(line));
  return reader.Finish();
}

}  // namespace farcall::cli
