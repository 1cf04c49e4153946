// SPDX-License-Identifier: Apache-2.0
// What a client wants to hear with the answer to the load of a module or library.
#pragma once

#include <cstdint>

namespace farcall {

inline constexpr uint8_t kWantsLogs = 1;       // the compiler's and linker's
inline constexpr uint8_t kWantsFunctions = 2;  // what is known of its functions, if there are few

}  // namespace farcall
