// SPDX-License-Identifier: Apache-2.0
// PTX constant expressions: 64-bit integer arithmetic with C's operators, and floating literals.
#pragma once

#include <cstdint>

#include "cpu-device/ptx/lexer.h"

namespace farcall::cpu_device::ptx {

struct Constant {
  uint64_t value = 0;  // two's complement, or IEEE bits
  bool is_unsigned = false;
  bool is_float = false;
  bool single = false;  // a float written 0f...
};

// True if the current token can start a constant: a literal, a sign, '(' or WARP_SZ.
bool StartsConstant(const Lexer& lexer);

// Errors go to the lexer: division by zero, float in an integer operation, nesting over the limit.
Constant ParseConstant(Lexer& lexer);

}  // namespace farcall::cpu_device::ptx
