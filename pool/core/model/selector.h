// SPDX-License-Identifier: Apache-2.0
// Labels, and what asks for them: "zone=a, !spot, model in (H100,A100)".
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::pool {

using Labels = std::map<std::string, std::string>;

inline constexpr size_t kMaxLabels = 64, kMaxSelector = 1024, kMaxTerms = 16, kMaxValues = 64;

// A label's name has 1 to 63 letters, digits and . _ - / and begins with a letter or digit, its
// value 0 to 63 of these. What cannot be; "": nothing.
std::string FaultOf(const Labels& labels);

// One condition. A label that is not there is none of the values.
struct Term {
  std::string key;
  bool is_negated = false;
  bool wants_value = false;         // else whether the label is there
  std::vector<std::string> values;  // any of them
  bool operator==(const Term&) const = default;
};

// All of its terms have to be met. `host` is a host's name. `model` is part of a GPU's, as a
// claim's own model is.
struct Selector {
  std::vector<Term> terms;
  bool operator==(const Selector&) const = default;
  bool is_empty() const { return terms.empty(); }
};

// Terms are joined by commas: KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B).
// What is wrong with it, in one line; "": nothing.
std::string ParseSelector(std::string_view text, Selector* selector);
// The same each time for the same terms.
std::string ToText(const Selector& selector);

bool MatchesHost(const Selector& selector, std::string_view host, const Labels& labels);
bool MatchesGpu(const Selector& selector, std::string_view gpu);

}  // namespace farcall::pool
