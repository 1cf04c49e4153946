// SPDX-License-Identifier: Apache-2.0
// Tokens of PTX text.
#include "cpu-device/ptx/lexer.h"

#include <charconv>
#include <cstring>

namespace farcall::cpu_device::ptx {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsWord(char c) {
  return IsLetter(c) || IsDigit(c) || c == '_' || c == '$' || c == '%';
}

int DigitValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

std::string Quote(std::string_view text) {
  constexpr size_t kShown = 40;  // a hostile file must not fill the log
  std::string out = "'";
  for (char c : text.substr(0, kShown)) out += (c >= 32 && c < 127) ? c : '?';
  return out + (text.size() > kShown ? "...'" : "'");
}

}  // namespace

bool Lexer::Fail(const std::string& message) {
  return FailAt(token_.line, message);
}

bool Lexer::FailAt(uint32_t line, const std::string& message) {
  if (error_.empty()) error_ = "line " + std::to_string(line) + ": " + message;
  uint32_t at = token_.line;
  token_ = Token();
  token_.line = at;
  pos_ = text_.size();
  return false;
}

std::string Lexer::Describe() const {
  return AtEnd() ? std::string("end of text") : Quote(token_.text);
}

bool Lexer::AcceptPunct(char c) {
  if (!IsPunct(c)) return false;
  Advance();
  return true;
}

bool Lexer::AcceptDirective(std::string_view text) {
  if (!IsDirective(text)) return false;
  Advance();
  return true;
}

bool Lexer::ExpectPunct(char c) {
  if (AcceptPunct(c)) return true;
  return Fail(std::string("expected '") + c + "', got " + Describe());
}

std::string_view Lexer::ExpectIdentifier(const char* what) {
  if (!IsIdentifier()) {
    Fail(std::string("expected ") + what + ", got " + Describe());
    return {};
  }
  return Next().text;
}

uint64_t Lexer::ExpectInteger(const char* what) {
  if (token_.kind != Token::Kind::kInteger) {
    Fail(std::string("expected ") + what + ", got " + Describe());
    return 0;
  }
  return Next().value;
}

// Blanks and comments. False on an unterminated comment.
bool Lexer::SkipBlanks() {
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '\n') {
      ++line_;
      ++pos_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++pos_;
    } else if (c == '/' && At(pos_ + 1) == '/') {
      const void* end = memchr(text_.data() + pos_, '\n', text_.size() - pos_);
      pos_ = end ? static_cast<size_t>(static_cast<const char*>(end) - text_.data()) : text_.size();
    } else if (c == '/' && At(pos_ + 1) == '*') {
      size_t end = text_.find("*/", pos_ + 2);
      if (end == std::string_view::npos) return false;
      for (size_t i = pos_; i < end; ++i) line_ += text_[i] == '\n';
      pos_ = end + 2;
    } else {
      break;
    }
  }
  return true;
}

void Lexer::Advance() {
  bool terminated = SkipBlanks();
  token_ = Token();
  token_.line = line_;
  if (!terminated) {
    Fail("comment without end");
    return;
  }
  if (pos_ >= text_.size()) return;
  char c = text_[pos_];
  if (IsDigit(c)) return LexNumber();
  // A '%' by itself is the remainder operator.
  if (IsWord(c) && (c != '%' || IsWord(At(pos_ + 1)))) return LexIdentifier(false);
  if (c == '.' && (IsLetter(At(pos_ + 1)) || At(pos_ + 1) == '_')) return LexIdentifier(true);
  if (c == '.' && IsDigit(At(pos_ + 1))) return LexDecimalFloat(pos_);
  if (c == '"') return LexString();
  token_.kind = Token::Kind::kPunct;
  token_.punct = c;
  token_.text = text_.substr(pos_++, 1);
}

// `::` joins two parts ("shared::cluster"); a lone ':' ends a label and stays outside.
void Lexer::LexIdentifier(bool directive) {
  size_t start = pos_++;
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (IsWord(c))
      ++pos_;
    else if (c == '.' && !directive && IsWord(At(pos_ + 1)))
      pos_ += 2;
    else if (c == ':' && At(pos_ + 1) == ':' && IsWord(At(pos_ + 2)))
      pos_ += 3;
    else
      break;
  }
  token_.kind = directive ? Token::Kind::kDirective : Token::Kind::kIdentifier;
  token_.text = text_.substr(start, pos_ - start);
}

void Lexer::LexString() {
  size_t start = ++pos_;
  while (pos_ < text_.size() && text_[pos_] != '"') {
    if (text_[pos_] == '\n') ++line_;
    pos_ += text_[pos_] == '\\' ? 2 : 1;
  }
  if (pos_ >= text_.size()) {
    Fail("string without end");
    return;
  }
  token_.kind = Token::Kind::kString;
  token_.text = text_.substr(start, pos_ - start);
  ++pos_;
}

void Lexer::LexNumber() {
  char second = At(pos_ + 1);
  if (text_[pos_] == '0') {
    if (second == 'f' || second == 'F') return LexHexFloat(8, true);
    if (second == 'd' || second == 'D') return LexHexFloat(16, false);
    if (second == 'x' || second == 'X') return LexRadix(pos_ + 2, 16);
    if (second == 'b' || second == 'B') return LexRadix(pos_ + 2, 2);
  }
  size_t end = pos_;
  while (IsDigit(At(end))) ++end;
  char after = At(end);
  if (after == '.' || after == 'e' || after == 'E') return LexDecimalFloat(end);
  LexRadix(pos_, text_[pos_] == '0' && end > pos_ + 1 ? 8 : 10);
}

void Lexer::LexRadix(size_t digits_at, unsigned radix) {
  size_t i = digits_at;
  uint64_t value = 0;
  for (; i < text_.size(); ++i) {
    unsigned digit = static_cast<unsigned>(DigitValue(text_[i]));
    if (digit >= radix) break;
    if (value > (~0ull - digit) / radix) {
      Fail("integer does not fit 64 bits");
      return;
    }
    value = value * radix + digit;
  }
  if (i == digits_at) {
    Fail("number without digits");
    return;
  }
  bool suffix = At(i) == 'U' || At(i) == 'u';
  if (suffix) ++i;
  if (IsWord(At(i))) {
    Fail("malformed number " + Quote(text_.substr(pos_, i + 1 - pos_)));
    return;
  }
  token_.kind = Token::Kind::kInteger;
  token_.value = value;
  token_.is_unsigned = suffix || (value >> 63) != 0;
  token_.text = text_.substr(pos_, i - pos_);
  pos_ = i;
}

void Lexer::LexHexFloat(unsigned digits, bool single) {
  uint64_t value = 0;
  size_t start = pos_ + 2;
  for (unsigned i = 0; i < digits; ++i) {
    int digit = DigitValue(At(start + i));
    if (digit > 15) {
      Fail("hexadecimal float needs " + std::to_string(digits) + " digits");
      return;
    }
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  if (IsWord(At(start + digits))) {
    Fail("hexadecimal float needs " + std::to_string(digits) + " digits");
    return;
  }
  token_.kind = Token::Kind::kFloat;
  token_.single = single;
  token_.value = value;
  token_.text = text_.substr(pos_, digits + 2);
  pos_ = start + digits;
}

// `end` is where the integer part ends.
void Lexer::LexDecimalFloat(size_t end) {
  if (At(end) == '.') ++end;
  while (IsDigit(At(end))) ++end;
  if (At(end) == 'e' || At(end) == 'E') {
    ++end;
    if (At(end) == '+' || At(end) == '-') ++end;
    while (IsDigit(At(end))) ++end;
  }
  double value = 0;
  const char* first = text_.data() + pos_;
  auto parsed = std::from_chars(first, text_.data() + end, value);
  bool whole = parsed.ptr == text_.data() + end && parsed.ec == std::errc();
  if (!whole || IsWord(At(end))) {
    Fail("malformed number " + Quote(text_.substr(pos_, end - pos_)));
    return;
  }
  token_.kind = Token::Kind::kFloat;
  memcpy(&token_.value, &value, sizeof value);
  token_.text = text_.substr(pos_, end - pos_);
  pos_ = end;
}

std::string_view Lexer::SkipBraces(uint32_t* first_line) {
  *first_line = line_;
  size_t start = pos_;  // just after the '{'
  unsigned depth = 1;
  while (SkipBlanks() && pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '"') {
      LexString();
      if (!ok()) return {};
      continue;
    }
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) {
      std::string_view inside = text_.substr(start, pos_ - start);
      ++pos_;
      Advance();
      return inside;
    }
    ++pos_;
    // Skipping word by word spares SkipBlanks a call per character.
    while (pos_ < text_.size() && IsWord(text_[pos_])) ++pos_;
  }
  Fail("'{' without '}'");
  return {};
}

}  // namespace farcall::cpu_device::ptx
