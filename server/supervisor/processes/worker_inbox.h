// SPDX-License-Identifier: Apache-2.0
// What a worker sends, taken one message at a time. A worker may have been taken over: nothing it
// sends makes the supervisor wait, or keeps a descriptor that no message carries.
#pragma once

#include <chrono>

#include "proto/status.h"
#include "server/control/messages.h"

namespace farcall::server {

// One message; `descriptor` is the caller's to close, -1: none came.
//   Errors  kTimeout (nothing there), kDisconnected,
//           kMalformed (not a message of a worker's, or with descriptors that it may not carry; it
//           stays in the queue, so that what comes with it is closed with the socket: Closer)
Status TakeFromWorker(int control, control::FromWorker* message, int* descriptor);

// Whether the descriptor is of a kind that sessions share: memory without a name, a dma-buf, or one
// of NVIDIA's devices. Closing any of these does not wait.
bool IsMemoryDescriptor(int fd);

// How many messages of a worker are read: so many a second, and at most a burst at once. What is
// beyond stays in its socket, and the worker waits.
inline constexpr double kMessagesPerSecond = 20'000, kMessagesAtOnce = 4'000;
inline constexpr std::chrono::milliseconds kMessagePause{10};  // for some of them to come back

}  // namespace farcall::server
