// SPDX-License-Identifier: Apache-2.0
// A device library for fuzzing: every function is there, answers at once and remembers that it was
// called.
#pragma once

#include "server/driver_api.h"

namespace farcall::fuzz {

// Filled once. Windows and copies are real memory, so that an address let through wrongly faults.
const server::DriverApi& FuzzDevice();

// Prints which functions that generated server code calls were never reached.
void ReportReached();

}  // namespace farcall::fuzz
