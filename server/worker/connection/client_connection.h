// SPDX-License-Identifier: Apache-2.0
// The connections of a client that the supervisor has let in and handed over.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "proto/handshake/handshake.h"
#include "transport/channel.h"
#include "transport/fabric/fabric_channel.h"

namespace farcall::server {

// Goes on with `fd` by what the supervisor's channel said of it (Channel::HandOver). Over shm://
// the rings, of `ring_bytes` each, are made here and offered. Takes `fd`. A client that cannot be
// served is told why.
//   Errors  kUnavailable, kMalformed (no state of ours)
Result<std::unique_ptr<Channel>> TakeConnection(int fd, std::span<const std::byte> state,
                                                size_t ring_bytes);

// Whether a connection goes on by UCX or RDMA once it is welcomed, `welcome` says; the end is made
// before, so that it is welcomed to nothing that fails. Null: it does not.   Errors  kUnavailable
Result<FabricEndPointer> PrepareFabric(const Welcome& welcome, bool is_log);
// A connection that has been welcomed, by the fabric if there is an end for it.
std::unique_ptr<Channel> GoOn(std::unique_ptr<Channel> channel, FabricEndPointer end);

}  // namespace farcall::server
