// SPDX-License-Identifier: Apache-2.0
// A peer's text for people and for programs that read lines: terminals, logs, tables, labels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace farcall {

inline constexpr size_t kMaxShownBytes = 96;     // a name's
inline constexpr size_t kMaxMessageBytes = 512;  // a sentence's

// `text` with all escaped that would not be seen as it is: control characters (\n, \x1b), bytes
// that are no UTF-8 (\xff), and characters that turn the direction of writing, hide, or end a line
// (\u{202e}). More than `max_bytes` of the result are cut, which "..." at its end says. What is
// printable already stays as it is, so that text may pass through more than once.
std::string Printable(std::string_view text, size_t max_bytes = kMaxShownBytes);

// The same in single quotes, for a value in a message.
inline std::string Quoted(std::string_view text, size_t max_bytes = kMaxShownBytes) {
  std::string quoted(1, '\'');
  return quoted.append(Printable(text, max_bytes)).append(1, '\'');
}

// Whether `text` is UTF-8, without overlong forms and surrogates.
bool IsUtf8(std::string_view text);

// JSON whose strings hold such characters as they are: the same JSON, in ASCII, for a terminal.
std::string AsciiJson(std::string_view json);

}  // namespace farcall
