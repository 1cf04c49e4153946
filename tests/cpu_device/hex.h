// SPDX-License-Identifier: Apache-2.0
// Opaque handles as text, for another process's command line.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

namespace farcall::cpu_device {

template <typename Handle>
std::string ToHex(const Handle& handle) {
  std::string text;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&handle);
  for (size_t i = 0; i < sizeof(handle); ++i) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

template <typename Handle>
bool FromHex(const std::string& text, Handle* handle) {
  if (text.size() != 2 * sizeof(*handle)) return false;
  auto* bytes = reinterpret_cast<unsigned char*>(handle);
  for (size_t i = 0; i < sizeof(*handle); ++i)
    bytes[i] = static_cast<unsigned char>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  return true;
}

}  // namespace farcall::cpu_device
