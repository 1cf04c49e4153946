// SPDX-License-Identifier: Apache-2.0
// The server's exit codes; docs/reference/exit-codes.md says them to people.
#pragma once

namespace farcall {

inline constexpr int kExitOk = 0;  // drained, or stopped as asked
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;  // a flag, a setting or a combination that must not be
inline constexpr int kExitCannotListen = 3;
inline constexpr int kExitNoDevice = 4;
inline constexpr int kExitNoPlace = 5;  // of `farcall pool request`

}  // namespace farcall
