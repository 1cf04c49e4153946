// SPDX-License-Identifier: Apache-2.0
#include "cli/findings.h"

#include <cstdio>

#include "proto/printable.h"

namespace farcall::cli {

bool Findings::Say(bool good, const std::string& what, const std::string& remedy) {
  good_ &= good;
  if (json_) {
    list_.push_back({{"ok", good}, {"what", what}});
    if (!good && !remedy.empty()) list_.back()["remedy"] = remedy;
    return good;
  }
  std::printf("%-5s %s\n", good ? "ok" : "FAIL", Printable(what, kMaxMessageBytes).c_str());
  if (!good && !remedy.empty()) std::printf("      %s\n", remedy.c_str());
  return good;
}

void Findings::Note(const std::string& what) {
  if (!json_) {
    std::printf("      %s\n", Printable(what, kMaxMessageBytes).c_str());
  } else if (!list_.empty()) {
    list_.back()["notes"].push_back(what);
  }
}

void Findings::Finish() {
  if (!json_) return;
  nlohmann::ordered_json whole = {{"ok", good_}, {"findings", list_}};
  whole.update(extra_);
  // Paths and messages may hold any bytes; a terminal is to see ASCII.
  std::printf("%s\n", whole.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace farcall::cli
