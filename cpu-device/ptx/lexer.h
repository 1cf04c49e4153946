// SPDX-License-Identifier: Apache-2.0
// Tokens of PTX text. The first error sticks: from then on every token is kEnd, so parsers need not
// check each step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::cpu_device::ptx {

struct Token {
  enum class Kind : uint8_t {
    kEnd,
    kIdentifier,  // with all dotted parts: "ld.global.v4.f32", "%tid.x", "$L__BB0_1"
    kDirective,   // one part, with its dot: ".reg", ".param::entry"
    kInteger,     // value
    kFloat,       // value = IEEE bits; `single` tells 0f from 0d
    kString,      // text without the quotes, escapes untouched
    kPunct,       // one character, in text
  };
  Kind kind = Kind::kEnd;
  bool single = false;
  bool is_unsigned = false;  // U suffix, or too large for int64
  char punct = 0;
  std::string_view text;
  uint64_t value = 0;
  uint32_t line = 0;
};

class Lexer {
 public:
  Lexer(std::string_view text, uint32_t line) : text_(text), line_(line) { Advance(); }

  const Token& peek() const { return token_; }
  Token Next() {
    Token token = token_;
    Advance();
    return token;
  }

  bool AtEnd() const { return token_.kind == Token::Kind::kEnd; }
  bool IsPunct(char c) const { return token_.kind == Token::Kind::kPunct && token_.punct == c; }
  bool IsDirective(std::string_view text) const {
    return token_.kind == Token::Kind::kDirective && token_.text == text;
  }
  bool IsIdentifier() const { return token_.kind == Token::Kind::kIdentifier; }

  // Take the token if it is that; else leave it.
  bool AcceptPunct(char c);
  bool AcceptDirective(std::string_view text);
  // Take the token or fail.
  bool ExpectPunct(char c);
  std::string_view ExpectIdentifier(const char* what);
  uint64_t ExpectInteger(const char* what);

  // With a '{' as current token: the text up to its partner, which becomes the current token's
  // predecessor. Comments and strings inside are honoured. `first_line` is the line of the text's
  // first character.
  std::string_view SkipBraces(uint32_t* first_line);

  // Records "line N: message" and ends the token stream. Only the first call counts. Returns false.
  bool Fail(const std::string& message);
  bool FailAt(uint32_t line, const std::string& message);
  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  // What the current token looks like, for messages.
  std::string Describe() const;

 private:
  void Advance();
  bool SkipBlanks();
  void LexNumber();
  void LexRadix(size_t digits_at, unsigned radix);
  void LexHexFloat(unsigned digits, bool single);
  void LexDecimalFloat(size_t end);
  void LexIdentifier(bool directive);
  void LexString();
  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  size_t pos_ = 0;
  uint32_t line_;
  Token token_;
  std::string error_;
};

}  // namespace farcall::cpu_device::ptx
