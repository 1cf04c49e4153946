// SPDX-License-Identifier: Apache-2.0
// The file descriptor that stands for exported memory, or for a pool, on the client's host: it
// carries the token another process of the same vGPU imports it by.
#pragma once

#include "proto/wire.h"

namespace farcall::client {

enum class ShareKind : uint32_t { kMemory = 1, kPool = 2 };

struct Share {
  ShareToken token;
  int32_t server_device = 0;  // of a pool
};

// -1: the system gave none.
int NewShareDescriptor(ShareKind kind, const Share& share);
// False: no descriptor of ours of that kind.
bool ReadShareDescriptor(int descriptor, ShareKind kind, Share* share);

}  // namespace farcall::client
