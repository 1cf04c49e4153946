// SPDX-License-Identifier: Apache-2.0
#include "proto/printable.h"

#include <cstdint>
#include <cstdio>

namespace farcall {

namespace {

constexpr uint32_t kNoCharacter = ~0u;

// The character at the start of `text`, and its bytes; kNoCharacter of one byte if that is no
// UTF-8: overlong forms and surrogates are none.
uint32_t Next(std::string_view text, size_t* bytes) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  *bytes = 1;
  const uint8_t first = byte(0);
  if (first < 0x80) return first;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return kNoCharacter;
  uint32_t character = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return kNoCharacter;
    character = character << 6 | (byte(i) & 0x3Fu);
  }
  const bool is_surrogate = character >= 0xD800 && character <= 0xDFFF;
  if (character < kLeast[length] || character > 0x10FFFF || is_surrogate) return kNoCharacter;
  *bytes = length;
  return character;
}

bool IsWithin(uint32_t character, uint32_t first, uint32_t last) {
  return character >= first && character <= last;
}

// Not seen, or seen elsewhere than it stands.
bool IsHidden(uint32_t c) {
  return c < 0x20 || IsWithin(c, 0x7F, 0x9F) || c == 0xAD || c == 0x34F || c == 0x61C ||
         IsWithin(c, 0x115F, 0x1160) || IsWithin(c, 0x17B4, 0x17B5) ||
         IsWithin(c, 0x180B, 0x180F) || IsWithin(c, 0x200B, 0x200F) ||
         IsWithin(c, 0x2028, 0x202E) || IsWithin(c, 0x2060, 0x206F) || c == 0x3164 ||
         IsWithin(c, 0xE000, 0xF8FF) || IsWithin(c, 0xFE00, 0xFE0F) || c == 0xFEFF ||
         IsWithin(c, 0xFFF0, 0xFFFB) || IsWithin(c, 0xFFFE, 0xFFFF) || c >= 0xE0000;
}

std::string Escaped(uint32_t character, uint8_t byte) {
  char text[16];
  if (character == '\n') return "\\n";
  if (character == '\r') return "\\r";
  if (character == '\t') return "\\t";
  if (character == kNoCharacter || character < 0x80)
    std::snprintf(text, sizeof(text), "\\x%02x", byte);
  else
    std::snprintf(text, sizeof(text), "\\u{%x}", character);
  return text;
}

}  // namespace

std::string Printable(std::string_view text, size_t max_bytes) {
  constexpr std::string_view kCut = "...";
  std::string shown;
  size_t whole = 0;  // of `shown`, where a cut may be
  while (!text.empty()) {
    size_t bytes = 1;
    const uint32_t character = Next(text, &bytes);
    if (shown.size() + kCut.size() <= max_bytes) whole = shown.size();
    if (character == kNoCharacter || IsHidden(character))
      shown += Escaped(character, static_cast<uint8_t>(text[0]));
    else
      shown += text.substr(0, bytes);
    if (shown.size() > max_bytes) {
      shown.resize(whole);
      return shown.append(kCut.substr(0, max_bytes));
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    size_t bytes = 1;
    if (Next(text, &bytes) == kNoCharacter) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string AsciiJson(std::string_view json) {
  std::string ascii;
  ascii.reserve(json.size());
  auto put = [&ascii](uint32_t unit) {
    char text[8];
    std::snprintf(text, sizeof(text), "\\u%04x", unit & 0xFFFF);
    ascii += text;
  };
  while (!json.empty()) {
    size_t bytes = 1;
    const uint32_t character = Next(json, &bytes);
    if (character == kNoCharacter) {
      put(0xFFFD);
    } else if (character < 0x7F) {
      ascii += static_cast<char>(character);  // JSON's own writer has escaped what is below 0x20
    } else if (character < 0x10000) {
      put(character);
    } else {
      put(0xD800 + ((character - 0x10000) >> 10));
      put(0xDC00 + ((character - 0x10000) & 0x3FF));
    }
    json.remove_prefix(bytes);
  }
  return ascii;
}

}  // namespace farcall
