// SPDX-License-Identifier: Apache-2.0
// A function of this process that runs when a stream gets there.
#pragma once

#include <cuda.h>

#include <functional>

#include "client-shim/core/host_functions.h"

namespace farcall::client {

// Puts `function` on the stream; it runs on the callback thread, with the stream's status. The
// stream goes on once it has returned.
CUresult PostHostFunction(CUstream stream, std::function<void(CUresult)> function,
                          HostFunctionKind kind);
// The same of a function of ours; the stream goes on when it calls `done`, from any thread.
CUresult PostDeferred(CUstream stream, std::function<void(std::function<void()> done)> function);

}  // namespace farcall::client
