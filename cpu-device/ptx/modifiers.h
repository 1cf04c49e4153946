// SPDX-License-Identifier: Apache-2.0
// From a mnemonic's text to opcode and typed modifiers.
#pragma once

#include <string_view>

#include "cpu-device/ptx/instruction.h"

namespace farcall::cpu_device::ptx {

// False if the opcode is unknown. Unknown modifiers are no error: they stay in the mnemonic
// (Instruction::Has).
bool ParseMnemonic(std::string_view mnemonic, Opcode* opcode, Modifiers* mods);

// The i-th dot-separated part of `mnemonic`, empty past the end.
std::string_view MnemonicPart(std::string_view mnemonic, unsigned i);

}  // namespace farcall::cpu_device::ptx
