// SPDX-License-Identifier: Apache-2.0
// A connection inside one process: two bounded pipes in memory. For tests, and for a server
// embedded in a program.
#pragma once

#include <memory>

#include "transport/channel.h"
#include "transport/url.h"

namespace farcall {

Result<std::unique_ptr<Channel>> DialInproc(const Url& url, Clock::time_point deadline);
Result<std::unique_ptr<Listener>> ListenInproc(const Url& url);

}  // namespace farcall
