// SPDX-License-Identifier: Apache-2.0
// Names visible inside a function body.
#include "cpu-device/ptx/scope.h"

namespace farcall::cpu_device::ptx {
namespace {

// "%r12" is "%r" and 12. False if there is no number or it is written unusually ("%r012").
bool SplitNumber(std::string_view name, std::string_view* prefix, uint32_t* number) {
  size_t digits = name.find_last_not_of("0123456789") + 1;
  size_t count = name.size() - digits;
  if (digits == 0 || count == 0 || count > 9) return false;
  if (name[digits] == '0' && count > 1) return false;
  uint32_t value = 0;
  for (char c : name.substr(digits)) value = value * 10 + static_cast<uint32_t>(c - '0');
  *prefix = name.substr(0, digits);
  *number = value;
  return true;
}

}  // namespace

bool ScopeStack::Find(std::string_view name, LocalSymbol* out) const {
  std::string_view prefix;
  uint32_t number = 0;
  bool numbered = SplitNumber(name, &prefix, &number);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (numbered && !scope->ranges.empty()) {
      auto range = scope->ranges.find(prefix);
      if (range != scope->ranges.end() && number < range->second.count) {
        *out = LocalSymbol();
        out->width = range->second.width;
        out->reg = range->second.first + number * out->width;
        return true;
      }
    }
    if (scope->symbols.empty()) continue;
    auto it = scope->symbols.find(name);
    if (it != scope->symbols.end()) {
      *out = it->second;
      return true;
    }
  }
  return false;
}

bool ScopeStack::Find(std::unordered_map<std::string_view, uint32_t> BodyScope::*table,
                      std::string_view name, uint32_t* out) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto it = ((*scope).*table).find(name);
    if (it == ((*scope).*table).end()) continue;
    *out = it->second;
    return true;
  }
  return false;
}

}  // namespace farcall::cpu_device::ptx
