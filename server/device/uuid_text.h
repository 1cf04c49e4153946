// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace farcall::server {

// As NVIDIA's tools write it.
inline std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

}  // namespace farcall::server
