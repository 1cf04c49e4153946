// SPDX-License-Identifier: Apache-2.0
// TCP over IPv4 and IPv6. Buffers and congestion control are the kernel's: its autotuning beats any
// fixed size.
#pragma once

#include <memory>

#include "transport/channel.h"
#include "transport/url.h"

namespace farcall {

Result<std::unique_ptr<Channel>> DialTcp(const Url& url, Clock::time_point deadline);
Result<std::unique_ptr<Listener>> ListenTcp(const Url& url);

}  // namespace farcall
