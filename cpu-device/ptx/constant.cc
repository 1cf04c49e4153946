// SPDX-License-Identifier: Apache-2.0
// PTX constant expressions: precedence climbing over C's operators.
#include "cpu-device/ptx/constant.h"

#include <cstring>
#include <string>

namespace farcall::cpu_device::ptx {
namespace {

constexpr int kMaxDepth = 64;  // nesting a hostile text may use of our stack
constexpr int kLowest = 1;     // precedence of ||

Constant ParseBinary(Lexer& lexer, int min_precedence, int depth);
Constant ParseConditional(Lexer& lexer, int depth);

Constant MakeInteger(uint64_t value, bool is_unsigned) {
  Constant c;
  c.value = value;
  c.is_unsigned = is_unsigned;
  return c;
}

Constant Negate(Constant c) {
  if (c.is_float)
    c.value ^= c.single ? 1ull << 31 : 1ull << 63;
  else
    c.value = 0 - c.value;
  return c;
}

Constant ParseParenthesised(Lexer& lexer, int depth) {
  // A cast: (.s64) or (.u64).
  if (lexer.IsDirective(".s64") || lexer.IsDirective(".u64")) {
    bool is_unsigned = lexer.Next().text == ".u64";
    if (!lexer.ExpectPunct(')')) return {};
    Constant c = ParseBinary(lexer, 100, depth + 1);
    c.is_unsigned = is_unsigned;
    return c;
  }
  Constant c = ParseConditional(lexer, depth + 1);
  lexer.ExpectPunct(')');
  return c;
}

Constant ParseUnary(Lexer& lexer, int depth) {
  if (depth > kMaxDepth) {
    lexer.Fail("constant expression nested deeper than " + std::to_string(kMaxDepth));
    return {};
  }
  const Token& token = lexer.peek();
  if (token.kind == Token::Kind::kInteger) {
    Token t = lexer.Next();
    return MakeInteger(t.value, t.is_unsigned);
  }
  if (token.kind == Token::Kind::kFloat) {
    Token t = lexer.Next();
    Constant c;
    c.value = t.value;
    c.is_float = true;
    c.single = t.single;
    return c;
  }
  if (token.kind == Token::Kind::kIdentifier && token.text == "WARP_SZ") {
    lexer.Next();
    return MakeInteger(32, false);
  }
  if (lexer.AcceptPunct('+')) return ParseUnary(lexer, depth + 1);
  if (lexer.AcceptPunct('-')) return Negate(ParseUnary(lexer, depth + 1));
  if (lexer.AcceptPunct('(')) return ParseParenthesised(lexer, depth);
  bool complement = lexer.IsPunct('~');
  if (complement || lexer.IsPunct('!')) {
    lexer.Next();
    Constant c = ParseUnary(lexer, depth + 1);
    if (c.is_float) lexer.Fail("'~' and '!' take integers");
    return complement ? MakeInteger(~c.value, c.is_unsigned) : MakeInteger(!c.value, false);
  }
  lexer.Fail("expected a constant, got " + lexer.Describe());
  return {};
}

enum class Op {
  kNone,
  kOrOr,
  kAndAnd,
  kOr,
  kXor,
  kAnd,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kShl,
  kShr,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kRem
};

int Precedence(Op op) {
  switch (op) {
    case Op::kNone:
      return 0;
    case Op::kOrOr:
      return 1;
    case Op::kAndAnd:
      return 2;
    case Op::kOr:
      return 3;
    case Op::kXor:
      return 4;
    case Op::kAnd:
      return 5;
    case Op::kEq:
    case Op::kNe:
      return 6;
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
      return 7;
    case Op::kShl:
    case Op::kShr:
      return 8;
    case Op::kAdd:
    case Op::kSub:
      return 9;
    case Op::kMul:
    case Op::kDiv:
    case Op::kRem:
      return 10;
  }
  return 0;
}

// The operator at the current token. Two-character operators arrive as two tokens, so they need
// their neighbour's text.
Op PeekOperator(const Lexer& lexer) {
  if (lexer.peek().kind != Token::Kind::kPunct) return Op::kNone;
  const char* p = lexer.peek().text.data();
  // The lexer never hands out the last byte of a mapped page: the body is followed by '}' or the
  // copy's NUL.
  char c = p[0], next = p[1];
  switch (c) {
    case '|':
      return next == '|' ? Op::kOrOr : Op::kOr;
    case '&':
      return next == '&' ? Op::kAndAnd : Op::kAnd;
    case '^':
      return Op::kXor;
    case '=':
      return next == '=' ? Op::kEq : Op::kNone;
    case '!':
      return next == '=' ? Op::kNe : Op::kNone;
    case '<':
      return next == '<' ? Op::kShl : next == '=' ? Op::kLe : Op::kLt;
    case '>':
      return next == '>' ? Op::kShr : next == '=' ? Op::kGe : Op::kGt;
    case '+':
      return Op::kAdd;
    case '-':
      return Op::kSub;
    case '*':
      return Op::kMul;
    case '/':
      return Op::kDiv;
    case '%':
      return Op::kRem;
    default:
      return Op::kNone;
  }
}

bool IsTwoCharacters(Op op) {
  switch (op) {
    case Op::kOrOr:
    case Op::kAndAnd:
    case Op::kEq:
    case Op::kNe:
    case Op::kLe:
    case Op::kGe:
    case Op::kShl:
    case Op::kShr:
      return true;
    default:
      return false;
  }
}

Constant Divide(Lexer& lexer, bool remainder, const Constant& a, const Constant& b,
                bool is_unsigned) {
  if (b.value == 0) {
    lexer.Fail("division by zero in a constant expression");
    return {};
  }
  if (is_unsigned) return MakeInteger(remainder ? a.value % b.value : a.value / b.value, true);
  if (b.value == ~0ull) return MakeInteger(remainder ? 0 : 0 - a.value, false);  // INT64_MIN / -1
  int64_t x = static_cast<int64_t>(a.value), y = static_cast<int64_t>(b.value);
  return MakeInteger(static_cast<uint64_t>(remainder ? x % y : x / y), false);
}

Constant CompareConstants(Op op, const Constant& a, const Constant& b, bool is_unsigned) {
  int64_t x = static_cast<int64_t>(a.value), y = static_cast<int64_t>(b.value);
  bool less = is_unsigned ? a.value < b.value : x < y;
  bool equal = a.value == b.value;
  switch (op) {
    case Op::kEq:
      return MakeInteger(equal, false);
    case Op::kNe:
      return MakeInteger(!equal, false);
    case Op::kLt:
      return MakeInteger(less, false);
    case Op::kLe:
      return MakeInteger(less || equal, false);
    case Op::kGt:
      return MakeInteger(!less && !equal, false);
    default:
      return MakeInteger(!less, false);
  }
}

Constant Apply(Lexer& lexer, Op op, const Constant& a, const Constant& b) {
  if (a.is_float || b.is_float) {
    lexer.Fail("a constant expression of floats is not supported");
    return {};
  }
  bool is_unsigned = a.is_unsigned || b.is_unsigned;
  uint64_t shift = b.value & 63;
  switch (op) {
    case Op::kOrOr:
      return MakeInteger(a.value || b.value, false);
    case Op::kAndAnd:
      return MakeInteger(a.value && b.value, false);
    case Op::kOr:
      return MakeInteger(a.value | b.value, is_unsigned);
    case Op::kXor:
      return MakeInteger(a.value ^ b.value, is_unsigned);
    case Op::kAnd:
      return MakeInteger(a.value & b.value, is_unsigned);
    case Op::kShl:
      return MakeInteger(b.value > 63 ? 0 : a.value << shift, a.is_unsigned);
    case Op::kShr:
      if (a.is_unsigned) return MakeInteger(b.value > 63 ? 0 : a.value >> shift, true);
      return MakeInteger(
          static_cast<uint64_t>(static_cast<int64_t>(a.value) >> (b.value > 63 ? 63 : shift)),
          false);
    case Op::kAdd:
      return MakeInteger(a.value + b.value, is_unsigned);
    case Op::kSub:
      return MakeInteger(a.value - b.value, is_unsigned);
    case Op::kMul:
      return MakeInteger(a.value * b.value, is_unsigned);
    case Op::kDiv:
      return Divide(lexer, false, a, b, is_unsigned);
    case Op::kRem:
      return Divide(lexer, true, a, b, is_unsigned);
    default:
      return CompareConstants(op, a, b, is_unsigned);
  }
}

Constant ParseBinary(Lexer& lexer, int min_precedence, int depth) {
  Constant left = ParseUnary(lexer, depth);
  while (lexer.ok()) {
    Op op = PeekOperator(lexer);
    if (Precedence(op) < min_precedence || op == Op::kNone) break;
    lexer.Next();
    if (IsTwoCharacters(op)) lexer.Next();
    Constant right = ParseBinary(lexer, Precedence(op) + 1, depth + 1);
    left = Apply(lexer, op, left, right);
  }
  return left;
}

Constant ParseConditional(Lexer& lexer, int depth) {
  Constant condition = ParseBinary(lexer, kLowest, depth);
  if (!lexer.AcceptPunct('?')) return condition;
  Constant yes = ParseConditional(lexer, depth + 1);
  if (!lexer.ExpectPunct(':')) return {};
  Constant no = ParseConditional(lexer, depth + 1);
  return condition.value ? yes : no;
}

}  // namespace

bool StartsConstant(const Lexer& lexer) {
  const Token& token = lexer.peek();
  switch (token.kind) {
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return true;
    case Token::Kind::kIdentifier:
      return token.text == "WARP_SZ";
    case Token::Kind::kPunct:
      return strchr("+-~!(", token.punct) != nullptr;
    default:
      return false;
  }
}

Constant ParseConstant(Lexer& lexer) {
  return ParseConditional(lexer, 0);
}

}  // namespace farcall::cpu_device::ptx
