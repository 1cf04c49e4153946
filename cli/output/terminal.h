// SPDX-License-Identifier: Apache-2.0
// Colors, for people alone: only on a terminal, and never with NO_COLOR.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace farcall::cli {

enum class Color { kNone = 0, kBold = 1, kDim = 2, kRed = 31, kGreen = 32, kYellow = 33 };

// As https://no-color.org has it, and no terminal that takes no escape sequences.
inline bool HasColors(FILE* to) {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (refused == nullptr || *refused == '\0') && isatty(fileno(to)) != 0 &&
         (terminal == nullptr || std::string(terminal) != "dumb");
}

inline std::string Painted(Color color, const std::string& text) {
  return color == Color::kNone
             ? text
             : "\033[" + std::to_string(static_cast<int>(color)) + "m" + text + "\033[0m";
}

// `text`, padded to `width` columns behind its color.
inline std::string Colored(FILE* to, Color color, const std::string& text, size_t width = 0) {
  const std::string padding(text.size() < width ? width - text.size() : 0, ' ');
  return (HasColors(to) ? Painted(color, text) : text) + padding;
}

}  // namespace farcall::cli
