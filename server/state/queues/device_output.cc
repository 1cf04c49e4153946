// SPDX-License-Identifier: Apache-2.0
#include "server/state/queues/device_output.h"

#include <unistd.h>

#include <cstdio>

#include "server/device/current_context.h"

namespace farcall::server {

void DeviceOutput::Drain() {
  if (captured_.output >= 0) std::fflush(stdout);
  std::lock_guard lock(drain_mutex_);
  DrainOne(captured_.output, /*is_error=*/false);
  DrainOne(captured_.error, /*is_error=*/true);
}

void DeviceOutput::DrainOne(int fd, bool is_error) {
  std::byte buffer[8192];
  while (fd >= 0) {
    ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got <= 0) return;
    send_({buffer, static_cast<size_t>(got)}, is_error);
  }
}

// A driver empties the buffer of device printf at its own blocking waits, which the worker does not
// use.
void DeviceOutput::FlushPrintf(CUcontext context) {
  if (!prints_) return;
  CurrentContext::Set(api_, context);
  // Any stream's wait empties it: one that never has work does not make us wait.
  std::unique_lock lock(flush_mutex_);
  auto [stream, is_new] = flush_streams_.try_emplace(context, nullptr);
  const CUresult made =
      is_new ? api_.cuStreamCreate(&stream->second, CU_STREAM_NON_BLOCKING) : CUDA_SUCCESS;
  CUstream idle = stream->second;
  if (made != CUDA_SUCCESS) {
    flush_streams_.erase(stream);
    idle = nullptr;
  }
  lock.unlock();
  if (idle != nullptr)
    api_.cuStreamSynchronize(idle);
  else if (made >= CUDA_ERROR_ILLEGAL_ADDRESS && made <= CUDA_ERROR_LAUNCH_FAILED)
    api_.cuCtxSynchronize();  // the context is broken: nothing in it is waited for
  Drain();
}

void DeviceOutput::ForgetContext(CUcontext context) {
  std::lock_guard lock(flush_mutex_);
  flush_streams_.erase(context);
}

}  // namespace farcall::server
