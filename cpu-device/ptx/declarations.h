// SPDX-License-Identifier: Apache-2.0
// Declarations that module scope, function scope and parameter lists share.
#pragma once

#include <memory>
#include <vector>

#include "cpu-device/ptx/lexer.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device::ptx {

inline constexpr uint64_t kMaxVariableBytes = 1ull << 40;

// What follows the state space: attributes, alignment, vector, type, name, dimensions. Sets all but
// `space` and `linkage`.
bool ParseVariable(Lexer& lexer, Variable* variable);

// `= value` or `= {...}` if there is one.
bool ParseInitializer(Lexer& lexer, Variable* variable);

// "(.param .u64 a, .reg .b32 b)". Offsets and indices are set; registers of .reg parameters are
// not.
bool ParseParameters(Lexer& lexer, std::vector<std::unique_ptr<Variable>>* out);

// Bytes the list takes when laid out in order with alignment.
uint32_t ParameterBytes(const std::vector<std::unique_ptr<Variable>>& params);

// "12, 1, 1": one to three positive numbers; absent ones become 1.
bool ParseExtent(Lexer& lexer, uint32_t out[3]);

}  // namespace farcall::cpu_device::ptx
