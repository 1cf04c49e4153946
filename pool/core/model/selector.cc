// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/selector.h"

#include <algorithm>

namespace farcall::pool {

namespace {

constexpr size_t kMaxPart = 63;
constexpr std::string_view kModel = "model", kHost = "host";

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsLabelChar(char c) {
  return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-' || c == '/';
}

bool IsValue(std::string_view text) {
  return text.size() <= kMaxPart && std::all_of(text.begin(), text.end(), IsLabelChar);
}

bool IsKey(std::string_view text) {
  return !text.empty() && IsAlphanumeric(text.front()) && IsValue(text);
}

// Reads words and signs from the front, and leaves spaces out.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  bool AtEnd() {
    Skip();
    return rest_.empty();
  }
  bool Take(std::string_view sign) {
    Skip();
    if (rest_.substr(0, sign.size()) != sign) return false;
    rest_.remove_prefix(sign.size());
    return true;
  }
  std::string Word() {
    Skip();
    size_t length = 0;
    while (length < rest_.size() && IsLabelChar(rest_[length])) ++length;
    std::string word(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return word;
  }

 private:
  void Skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  std::string_view rest_;
};

bool ReadValues(Scanner* scanner, std::vector<std::string>* values) {
  if (!scanner->Take("(")) return false;
  do {
    values->push_back(scanner->Word());
    if (!IsValue(values->back()) || values->size() > kMaxValues) return false;
  } while (scanner->Take(","));
  return scanner->Take(")");
}

bool ReadTerm(Scanner* scanner, Term* term) {
  term->is_negated = scanner->Take("!");
  term->key = scanner->Word();
  if (!IsKey(term->key)) return false;
  if (term->is_negated || scanner->AtEnd()) return true;
  if (const bool is_not = scanner->Take("!=");
      is_not || scanner->Take("==") || scanner->Take("=")) {
    term->is_negated = is_not;
    term->wants_value = true;
    term->values = {scanner->Word()};
    return IsValue(term->values.front());
  }
  Scanner word = *scanner;
  const std::string next = word.Word();
  if (next.empty()) return true;  // a comma, or what is wrong
  if (next != "in" && next != "notin") return false;
  *scanner = word;
  term->is_negated = next == "notin";
  term->wants_value = true;
  return ReadValues(scanner, &term->values);
}

// Whether any of the values is part of the text.
bool HasPart(const Term& term, std::string_view text) {
  return !term.wants_value ||
         std::any_of(term.values.begin(), term.values.end(), [&](const std::string& value) {
           return text.find(value) != std::string_view::npos;
         });
}

}  // namespace

std::string FaultOf(const Labels& labels) {
  if (labels.size() > kMaxLabels)
    return std::to_string(labels.size()) + " labels: at most " + std::to_string(kMaxLabels);
  for (const auto& [key, value] : labels) {
    if (key == kModel || key == kHost) return "label '" + key + "': the pool has its own";
    if (!IsKey(key))
      return "label '" + key.substr(0, kMaxPart) +
             "': a name has 1 to 63 letters, digits and . _ - / and begins with a letter or digit";
    if (!IsValue(value))
      return "label '" + key + "': a value has 0 to 63 letters, digits and . _ - /";
  }
  return "";
}

std::string ParseSelector(std::string_view text, Selector* selector) {
  *selector = {};
  if (text.size() > kMaxSelector)
    return "a selector of " + std::to_string(text.size()) + " characters: at most " +
           std::to_string(kMaxSelector);
  Scanner scanner(text);
  if (scanner.AtEnd()) return "";
  do {
    Term term;
    if (selector->terms.size() == kMaxTerms)
      return "a selector of more than " + std::to_string(kMaxTerms) + " terms";
    if (!ReadTerm(&scanner, &term))
      return "selector '" + std::string(text.substr(0, 128)) +
             "': write zone=a, !spot, model in (H100,A100)";
    std::sort(term.values.begin(), term.values.end());
    selector->terms.push_back(std::move(term));
  } while (scanner.Take(","));
  if (!scanner.AtEnd())
    return "selector '" + std::string(text.substr(0, 128)) +
           "': write zone=a, !spot, model in (H100,A100)";
  return "";
}

std::string ToText(const Selector& selector) {
  std::string text;
  for (const Term& term : selector.terms) {
    if (!text.empty()) text += ", ";
    if (!term.wants_value) {
      text += (term.is_negated ? "!" : "") + term.key;
      continue;
    }
    if (term.values.size() == 1) {
      text += term.key + (term.is_negated ? "!=" : "=") + term.values.front();
      continue;
    }
    text += term.key + (term.is_negated ? " notin (" : " in (");
    for (size_t i = 0; i < term.values.size(); ++i) text += (i == 0 ? "" : ",") + term.values[i];
    text += ")";
  }
  return text;
}

bool MatchesHost(const Selector& selector, std::string_view host, const Labels& labels) {
  return std::all_of(selector.terms.begin(), selector.terms.end(), [&](const Term& term) {
    if (term.key == kModel) return true;
    const std::string* value = nullptr;
    const std::string name(host);
    if (term.key == kHost)
      value = &name;
    else if (auto found = labels.find(term.key); found != labels.end())
      value = &found->second;
    const bool is_met =
        value != nullptr && (!term.wants_value || std::find(term.values.begin(), term.values.end(),
                                                            *value) != term.values.end());
    return is_met != term.is_negated;
  });
}

bool MatchesGpu(const Selector& selector, std::string_view gpu) {
  return std::all_of(selector.terms.begin(), selector.terms.end(), [&](const Term& term) {
    return term.key != kModel || HasPart(term, gpu) != term.is_negated;
  });
}

}  // namespace farcall::pool
