// SPDX-License-Identifier: Apache-2.0
// What whoever calls the real NVRTC for another has to do.
#pragma once

#include <string>

namespace farcall {

// A device that takes PTX alone gets PTX where machine code was asked for: sm_90 becomes
// compute_90. Whether this option asked so.
bool AskForPtx(std::string* option);

// NVRTC opens its built-in functions when it first compiles, wherever the loader then looks: they
// are loaded from `folder`, where it lies itself.
void LoadBuiltins(const std::string& folder);

}  // namespace farcall
