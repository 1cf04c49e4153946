// SPDX-License-Identifier: Apache-2.0
// What device code prints: read from the worker's stdout, where the driver writes it, and sent to
// the client.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "server/driver_api.h"

namespace farcall::server {

//   Thread  any
class DeviceOutput {
 public:
  using Send = std::function<void(std::span<const std::byte> printed)>;

  // `fd`: the read end of the worker's stdout, which does not block; -1: nothing is sent.
  DeviceOutput(const DriverApi& api, int fd, Send send)
      : api_(api), fd_(fd), send_(std::move(send)) {}

  // Sends what there is. Before a reply that a program may take as "it has printed".
  void Drain();
  // Device code of this session prints: waits flush the driver's buffer before they answer.
  void NotePrintf() { prints_ = true; }
  // Has the driver empty the context's buffer, and drains.
  void FlushPrintf(CUcontext context);
  // The native context is about to go, and the stream that we have in it.
  void ForgetContext(CUcontext context);

 private:
  const DriverApi& api_;
  const int fd_;
  const Send send_;
  std::atomic<bool> prints_{false};
  std::mutex drain_mutex_;
  std::mutex flush_mutex_;
  std::map<CUcontext, CUstream> flush_streams_;
};

}  // namespace farcall::server
