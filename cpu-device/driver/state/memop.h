// SPDX-License-Identifier: Apache-2.0
// Values written and waited for in stream order, or by a node of a graph.
#pragma once

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

class Context;

//   Errors  INVALID_VALUE (too many, unknown flags, an address outside known memory or not
//   aligned),
//           NOT_SUPPORTED (an operation this device does not know)
CUresult CheckMemOps(Context& context, const CUstreamBatchMemOpParams* ops, unsigned count);
// Waits until the value is reached, or writes it.
void RunMemOp(const CUstreamBatchMemOpParams& op);

}  // namespace farcall::cpu_device
