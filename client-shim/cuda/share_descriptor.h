// SPDX-License-Identifier: Apache-2.0
// The file descriptor that stands for exported memory on the client's host: it carries the token
// another process of the same vGPU imports the memory by.
#pragma once

#include "proto/wire.h"

namespace farcall::client {

// -1: the system gave none.
int NewShareDescriptor(const ShareToken& token);
// False: no descriptor of ours.
bool ReadShareDescriptor(int descriptor, ShareToken* token);

}  // namespace farcall::client
