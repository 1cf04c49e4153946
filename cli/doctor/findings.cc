// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/findings.h"

#include <algorithm>
#include <cstdio>

#include "cli/output/terminal.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

std::string Shown(const std::string& text) {
  return Printable(text, kMaxMessageBytes);
}

}  // namespace

void Findings::Begin(const std::string& topic, bool is_quiet) {
  topics_.push_back({topic, "", {}, is_quiet});
}

void Findings::Add(Finding finding) {
  failures_ += finding.kind == Kind::kFailure ? 1 : 0;
  warnings_ += finding.kind == Kind::kWarning ? 1 : 0;
  if (form_ == Form::kAll) {
    const char* word = finding.kind == Kind::kGood      ? "ok"
                       : finding.kind == Kind::kWarning ? "warn"
                                                        : "FAIL";
    const Color color = finding.kind == Kind::kGood      ? Color::kGreen
                        : finding.kind == Kind::kWarning ? Color::kYellow
                                                         : Color::kRed;
    std::printf("%s  %s\n", Colored(stdout, color, word, 4).c_str(), Shown(finding.what).c_str());
    if (!finding.remedy.empty()) std::printf("      %s\n", finding.remedy.c_str());
  }
  topics_.back().findings.push_back(std::move(finding));
}

bool Findings::Say(bool good, const std::string& what, const std::string& remedy) {
  Add({good ? Kind::kGood : Kind::kFailure, what, good ? "" : remedy, {}});
  return good;
}

void Findings::Warn(const std::string& what, const std::string& remedy) {
  Add({Kind::kWarning, what, remedy, {}});
}

void Findings::Note(const std::string& what) {
  if (form_ == Form::kAll) std::printf("      %s\n", Shown(what).c_str());
  if (!topics_.empty() && !topics_.back().findings.empty())
    topics_.back().findings.back().notes.push_back(what);
}

void Findings::Sum(const std::string& what) {
  topics_.back().sum = what;
}

void Findings::PrintTopics() const {
  for (const Topic& topic : topics_) {
    auto worst =
        std::max_element(topic.findings.begin(), topic.findings.end(),
                         [](const Finding& a, const Finding& b) { return a.kind < b.kind; });
    if (worst == topic.findings.end()) continue;
    const bool good = worst->kind == Kind::kGood;
    if (good && topic.is_quiet) continue;
    const Color color = good                            ? Color::kGreen
                        : worst->kind == Kind::kWarning ? Color::kYellow
                                                        : Color::kRed;
    const char* word = good ? "ok" : worst->kind == Kind::kWarning ? "warn" : "FAIL";
    const auto alike = std::count_if(topic.findings.begin(), topic.findings.end(),
                                     [&](const Finding& one) { return one.kind == worst->kind; });
    std::string text = Shown(good && !topic.sum.empty() ? topic.sum : worst->what);
    if (!good && alike > 1) text += "  (and " + std::to_string(alike - 1) + " more: -v)";
    std::printf("%s  %-9s  %s\n", Colored(stdout, color, word, 4).c_str(), topic.name.c_str(),
                text.c_str());
    if (!worst->remedy.empty()) std::printf("      %-9s  %s\n", "", worst->remedy.c_str());
  }
}

// One line: what to do next.
void Findings::PrintVerdict(const std::string& next) const {
  if (failures_ == 0) {
    const std::string warned = warnings_ == 0 ? "" : std::to_string(warnings_) + " warning(s); ";
    std::printf("%sready; next: %s\n", warned.c_str(), next.c_str());
    return;
  }
  for (const Topic& topic : topics_) {
    for (const Finding& finding : topic.findings) {
      if (finding.kind != Kind::kFailure) continue;
      const std::string& what = finding.remedy.empty() ? finding.what : finding.remedy;
      std::printf("%zu failure(s); next: %s\n", failures_, Shown(what).c_str());
      return;
    }
  }
}

void Findings::PrintJson() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Topic& topic : topics_) {
    for (const Finding& finding : topic.findings) {
      list.push_back(
          {{"topic", topic.name}, {"ok", finding.kind != Kind::kFailure}, {"what", finding.what}});
      if (finding.kind == Kind::kWarning) list.back()["warning"] = true;
      if (!finding.remedy.empty()) list.back()["remedy"] = finding.remedy;
      if (!finding.notes.empty()) list.back()["notes"] = finding.notes;
    }
  }
  nlohmann::ordered_json whole = {{"ok", good()}, {"findings", list}};
  whole.update(extra_);
  // Paths and messages may hold any bytes; a terminal is to see ASCII.
  std::printf("%s\n", whole.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
}

void Findings::Finish(const std::string& next) {
  if (form_ == Form::kJson) return PrintJson();
  if (form_ == Form::kTopics) PrintTopics();
  PrintVerdict(next);
}

}  // namespace farcall::cli
