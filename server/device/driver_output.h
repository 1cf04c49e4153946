// SPDX-License-Identifier: Apache-2.0
// What the driver and NVIDIA's libraries write to the standard output and error of a worker.
// Locally both would be the application's, so they go to the client: device printf, failed
// assertions, logs of libraries.
#pragma once

#include <cstddef>
#include <cstdio>
#include <span>

namespace farcall::server {

struct CapturedOutput {
  int output = -1, error = -1;  // to be read, without blocking; -1: not captured
};
// From here on, what is written to the standard output and error waits in two pipes.
//   Thread  once in a process, before the driver is in use by others
CapturedOutput CaptureDriverOutput();
// Writes to the server's log what the driver wrote to the standard error.   Thread  any
void LogDriverError(std::span<const std::byte> bytes);
// What waits on the standard error, to the server's log alone: the process ends. Safe in a signal
// handler.
void LogPendingErrors();

// The server's log, for lines of the worker itself, which are not for the client.   Thread  any
std::FILE* OwnLog();

}  // namespace farcall::server
