// SPDX-License-Identifier: Apache-2.0
// What a device that skips machine code has left out.
#pragma once

#include "generated/server/driver_api.h"

namespace farcall::server {

// Tells the supervisor which kernels were skipped and how often: some by name, the others together,
// as its queue is bounded.   `supervisor`  the connection to it
void ReportSkipped(const DriverApi& api, int supervisor);

}  // namespace farcall::server
