// SPDX-License-Identifier: Apache-2.0
// Primary contexts and the calling thread's stack.
#pragma once

#include "client-shim/core/session/contexts.h"

namespace farcall::client {

// The device's primary context, made if need be but not retained: it may be inactive. nullptr: no
// such device.
Context* PrimaryContext(int device);
// Ends its streams and events, as CUDA does with the context.
void DropContextHandles(Context* context);
// Frees what the context still holds on the client: its allocations' map entries and credit.
void DropContextMemory(Context* context);

}  // namespace farcall::client
