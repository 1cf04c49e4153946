// SPDX-License-Identifier: Apache-2.0
// A driver whose streams have work until the test says that it is done.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <set>

#include "generated/server/driver_api.h"
#include "server/memory/memory_broker.h"

namespace farcall::server {

// Memory that counts for nobody.
class NoCharges final : public MemoryBroker {
 public:
  Status Charge(int, uint64_t) override { return {}; }
  void Refund(int, uint64_t) override {}
  quota::Usage Query(int) override { return {}; }
};

//   Thread  any
class StreamDriver {
 public:
  // One at a time: the driver's functions are plain ones.
  StreamDriver() { Current() = this; }
  ~StreamDriver() { Current() = nullptr; }

  void Work(CUstream stream) {
    std::lock_guard lock(mutex_);
    working_.insert(stream);
  }
  // Events recorded on the stream are reached with it.
  void Done(CUstream stream, CUresult how = CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    working_.erase(stream);
    results_[stream] = how;
  }
  void Capture(CUstream stream) {
    std::lock_guard lock(mutex_);
    captured_.insert(stream);
  }
  int stream_queries() {
    std::lock_guard lock(mutex_);
    return stream_queries_;
  }

  DriverApi Api() {
    DriverApi api;
    api.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
    api.cuStreamCreate = [](CUstream* stream, unsigned) {
      std::lock_guard lock(Current()->mutex_);
      *stream = reinterpret_cast<CUstream>(0x1000 + ++Current()->streams_);
      return CUDA_SUCCESS;
    };
    api.cuStreamQuery = [](CUstream stream) {
      std::lock_guard lock(Current()->mutex_);
      ++Current()->stream_queries_;
      return Current()->StateOf(stream);
    };
    api.cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
      std::lock_guard lock(Current()->mutex_);
      *status = Current()->captured_.count(stream) != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                        : CU_STREAM_CAPTURE_STATUS_NONE;
      return CUDA_SUCCESS;
    };
    api.cuEventCreate = [](CUevent* event, unsigned) {
      std::lock_guard lock(Current()->mutex_);
      *event = reinterpret_cast<CUevent>(++Current()->events_);
      return CUDA_SUCCESS;
    };
    api.cuEventRecord = [](CUevent event, CUstream stream) {
      std::lock_guard lock(Current()->mutex_);
      Current()->recorded_[event] = stream;
      return CUDA_SUCCESS;
    };
    api.cuEventDestroy_v2 = [](CUevent) { return CUDA_SUCCESS; };
    api.cuEventQuery = [](CUevent event) {
      std::lock_guard lock(Current()->mutex_);
      return Current()->StateOf(Current()->recorded_.at(event));
    };
    return api;
  }

 private:
  static StreamDriver*& Current() {
    static StreamDriver* current = nullptr;
    return current;
  }
  CUresult StateOf(CUstream stream) {
    return working_.count(stream) != 0 ? CUDA_ERROR_NOT_READY : results_[stream];
  }

  std::mutex mutex_;
  std::set<CUstream> working_, captured_;
  std::map<CUstream, CUresult> results_;
  std::map<CUevent, CUstream> recorded_;
  uint64_t streams_ = 0, events_ = 0;
  int stream_queries_ = 0;
};

}  // namespace farcall::server
