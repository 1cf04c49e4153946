// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/link_text.h"

#include <algorithm>
#include <string_view>

namespace farcall::cpu_device {
namespace {

// What follows a directive of the header on its line, and the line's place; empty: there is none.
std::string_view Directive(std::string_view ptx, std::string_view name, size_t* at) {
  for (size_t line = 0; line < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', line), ptx.size());
    const size_t word = ptx.find_first_not_of(" \t\r", line);
    if (word < end && ptx.substr(word, name.size()) == name) {
      *at = word;
      return ptx.substr(word + name.size(), end - word - name.size());
    }
    line = end + 1;
  }
  return {};
}

int Digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c == ',' || c == '/') break;
    if (c >= '0' && c <= '9') value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::string LinkText(const std::vector<std::string>& inputs) {
  size_t first = 0;
  int newest = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t at = 0;
    const int version = Digits(Directive(inputs[i], ".target", &at)) * 1000 +
                        Digits(Directive(inputs[i], ".version", &at));
    if (version > newest) {
      newest = version;
      first = i;
    }
  }
  std::string whole = inputs[first];
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i == first) continue;
    std::string rest = inputs[i];
    for (const std::string_view name : {".version", ".target", ".address_size"}) {
      size_t at = 0;
      if (!Directive(rest, name, &at).empty()) rest.insert(at, "//");
    }
    whole += "\n" + rest;
  }
  return whole;
}

}  // namespace farcall::cpu_device
