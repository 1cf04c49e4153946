// SPDX-License-Identifier: Apache-2.0
// TCP over IPv4 and IPv6. Buffers and, between hosts, congestion control are the kernel's: its
// autotuning beats any fixed size.
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
// Whether both ends of a TCP connection have one address, and so are on one host.
bool IsInsideHost(int fd);
// Inside a host: takes Reno, the congestion control that every kernel has and lets every user
// choose. Nothing is lost there, so it never slows down; one that paces by measured delays, as BBR
// does, takes the scheduler's for the network's.
void DoNotPaceInsideHost(int fd);
// Which congestion control a connection uses, by the kernel's names: "bbr". Other sockets than
// TCP's are left alone.
//   Errors  kInvalid: the kernel has none of that name or does not let this user choose it; the
//           message names those that it does
Status SetCongestionControl(int fd, const std::string& name);
// Whether SetCongestionControl will take this name.   Errors  as there
Status CheckCongestionControl(const std::string& name);
// Empty: none, as this is no TCP connection.
std::string CongestionControlOf(int fd);
// Who made the other end of a UNIX socket, as this process sees that user; none of other sockets.
std::optional<uint32_t> UnixPeerUser(int fd);
std::string UnixPeerName(int fd);
// The other end's address in numbers, by whatever name it was dialled.
std::string PeerAddress(int fd);

}  // namespace farcall
