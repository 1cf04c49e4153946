// SPDX-License-Identifier: Apache-2.0
// `serve --worker-calls report`: names each system call that the filter would have refused.
#pragma once

#include "proto/status.h"

namespace farcall::server {

// Starts a thread that takes what a filter passes to `listener`, writes a line for the first of
// each call to the standard error, and lets all of them be made.
//   Errors  kUnavailable: no thread
Status ReportSystemCalls(int listener);

}  // namespace farcall::server
