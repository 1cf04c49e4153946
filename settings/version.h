// SPDX-License-Identifier: Apache-2.0
// The release this server is of, from the build.
#pragma once

namespace farcall {

inline constexpr const char* kServerVersion = FARCALL_VERSION;

}  // namespace farcall
