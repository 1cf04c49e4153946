// SPDX-License-Identifier: Apache-2.0
// TCP over IPv4 and IPv6. Buffers and congestion control are the kernel's: its autotuning beats any
// fixed size.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/channel.h"
#include "transport/url.h"

namespace farcall {

Result<std::unique_ptr<Channel>> DialTcp(const Url& url, Clock::time_point deadline);
Result<std::unique_ptr<Listener>> ListenTcp(const Url& url);

// Any connected socket; `state` is what its HandOver says.
std::unique_ptr<Channel> MakeSocketChannel(int fd, std::string peer,
                                           std::vector<std::byte> state = {});
// Who made the other end of a UNIX socket, as this process sees that user; none of other sockets.
std::optional<uint32_t> UnixPeerUser(int fd);
std::string UnixPeerName(int fd);

}  // namespace farcall
