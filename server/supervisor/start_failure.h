// SPDX-License-Identifier: Apache-2.0
// What `farcall serve` says when it does not start: to people on standard error, to the
// `farcall run` whose private server it is on standard output, in the place of the ready line.
#pragma once

#include <string>
#include <string_view>

namespace farcall::server {

// Set: a `farcall run` waits for the first line of standard output.
inline constexpr char kTellStarterVariable[] = "FARCALL_TELL_STARTER";
inline constexpr std::string_view kNotServing = "farcall: not serving: ";

// Says why, in one line. Returns `code`.
int SayWhyNot(int code, const std::string& why);

}  // namespace farcall::server
