// SPDX-License-Identifier: Apache-2.0
// A connection whose bytes travel by RDMA: a reliable connection (RC) of libibverbs between two
// rings of each end (transport/fabric/). Small pieces of a log go by SEND; everything else the
// server reads from the client's ring, and writes to it. A server offers no memory of its own.
#pragma once

#include <string>

#include "transport/fabric/fabric_channel.h"
#include "transport/verbs/verbs_exchange.h"

namespace farcall {

class VerbsDevice;

// Bytes of each ring: of a log, and of a lane. What a session locks, twice while it resumes, is
// less than the 8 MiB that many systems allow.
inline constexpr size_t kVerbsLogWindowBytes = 256u << 10, kVerbsLaneWindowBytes = 512u << 10;

enum class VerbsUse : uint8_t { kLog, kLane };

// This side's end: a queue pair, and memory that the card knows. `device` outlives it.
//   Errors  kUnavailable, one line with the remedy   Thread  any
Result<FabricEndPointer> MakeVerbsEnd(VerbsDevice& device, VerbsRole role, VerbsUse use);

// The card of this process, by FARCALL_VERBS_DEVICE; opened when it is first asked for, and kept.
//   Errors  kInvalid (the variable), kUnavailable: none that can be used, a build without RDMA, or
//           a process that was forked after it was opened; one line
//   Thread  any
Result<VerbsDevice*> VerbsDeviceOfProcess();
// "mlx5_0:1:3 (::ffff:10.0.0.1)".
std::string VerbsDeviceText(const VerbsDevice& device);

}  // namespace farcall
