// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nvrtc/scan.h"

#include <algorithm>
#include <string>

namespace farcall::nvrtc_client {

namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<NamedFile> Run() {
    bool line_begins = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        line_begins = true;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (Follows("//")) {
        SkipLine();
      } else if (Follows("/*")) {
        at_ = After("*/", at_ + 2);
      } else if (c == '#' && line_begins) {
        line_begins = false;
        Directive();
      } else if (c == '"') {
        line_begins = false;
        SkipString();
      } else if (IsWord(c)) {
        line_begins = false;
        Word();
      } else {
        line_begins = false;
        ++at_;
      }
    }
    return std::move(found_);
  }

 private:
  bool Follows(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  size_t After(std::string_view what, size_t from) const {
    const size_t at = text_.find(what, from);
    return at == std::string_view::npos ? text_.size() : at + what.size();
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  // To the end of the line, or of the last that a backslash joins to it.
  void SkipLine() {
    while (at_ < text_.size() && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
  }
  void SkipString() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n')
      at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ < text_.size() && text_[at_] == '"') ++at_;
    at_ = std::min(at_, text_.size());
  }
  // R"x( ... )x"
  void SkipRaw() {
    const size_t open = text_.find('(', at_);
    constexpr size_t kLongestDelimiter = 16;
    if (open == std::string_view::npos || open - at_ - 1 > kLongestDelimiter) return SkipString();
    std::string end(1, ')');
    end.append(text_.substr(at_ + 1, open - at_ - 1)).append(1, '"');
    at_ = After(end, open);
  }

  void Directive() {
    ++at_;
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    if (text_.substr(begin, at_ - begin) == "include") Name();
  }

  void Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "__has_include") {
      SkipSpace();
      if (!Follows("(")) return;
      ++at_;
      Name();
    } else if (Follows("\"") && word.back() == 'R') {
      SkipRaw();
    }
  }

  void Name() {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '<' && text_[at_] != '"')) return;
    const bool quoted = text_[at_] == '"';
    const size_t end = text_.find_first_of(quoted ? "\"\n" : ">\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') return;
    found_.push_back({at_, end - at_ - 1, quoted});
    at_ = end + 1;
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::vector<NamedFile> found_;
};

}  // namespace

std::vector<NamedFile> ScanIncludes(std::string_view text) {
  return Scanner(text).Run();
}

}  // namespace farcall::nvrtc_client
