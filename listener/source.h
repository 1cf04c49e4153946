// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

struct sockaddr_storage;

namespace farcall {

// What connections of one peer have in common: an IPv4 address, or the first 64 bits of an IPv6
// address, because a host has a whole /64 to choose from. 0: neither (and ::/64, the loopback).
uint64_t SourceOf(const sockaddr_storage& address);
// Of a connected socket; 0 where there is none.
uint64_t SourceOfSocket(int fd);

// Whether bytes to and from that address stay on this host: the loopback, or no network at all.
bool IsLoopback(const sockaddr_storage& address);
// Of a connected socket; true for a transport without descriptors (-1).
bool IsLoopbackPeer(int fd);

}  // namespace farcall
