// SPDX-License-Identifier: Apache-2.0
// What device code prints, and the driver itself: read from the worker's standard output and error,
// and sent to the client.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "generated/server/driver_api.h"
#include "server/device/driver_output.h"

namespace farcall::server {

//   Thread  any
class DeviceOutput {
 public:
  using Send = std::function<void(std::span<const std::byte> printed, bool is_error)>;

  // `captured`: -1: nothing of it is sent.
  DeviceOutput(const DriverApi& api, const CapturedOutput& captured, Send send)
      : api_(api), captured_(captured), send_(std::move(send)) {}

  // Sends what there is. Before a reply that a program may take as "it has printed".
  void Drain();
  // Device code of this session prints: waits flush the driver's buffer before they answer.
  void NotePrintf() { prints_ = true; }
  // Has the driver empty the context's buffer, and drains.
  void FlushPrintf(CUcontext context);
  // The native context is about to go, and the stream that we have in it.
  void ForgetContext(CUcontext context);

 private:
  void DrainOne(int fd, bool is_error);

  const DriverApi& api_;
  const CapturedOutput captured_;
  const Send send_;
  std::atomic<bool> prints_{false};
  std::mutex drain_mutex_;
  std::mutex flush_mutex_;
  std::map<CUcontext, CUstream> flush_streams_;
};

}  // namespace farcall::server
