// SPDX-License-Identifier: Apache-2.0
// A connection whose bytes travel by UCX: active messages, long ones by rendezvous, between two
// rings of each end (transport/fabric/).
#pragma once

#include "transport/fabric/fabric_channel.h"
#include "transport/ucx/ucx_api.h"

namespace farcall {

// Bytes of each ring: of a log, and of a lane.
inline constexpr size_t kUcxLogWindowBytes = 256u << 10, kUcxLaneWindowBytes = 1u << 20;

// This side's end: a UCX worker of its own. `context` outlives it.
//   Errors  kUnavailable   Thread  any
Result<FabricEndPointer> MakeUcxEnd(UcxContext& context, size_t window_bytes);

}  // namespace farcall
