// SPDX-License-Identifier: Apache-2.0
// Keeps the ResourceSlices of the pool's GPUs.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "pool/client/rest_client.h"
#include "pool/client/rest_watch.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/dra/device_slices.h"

namespace farcall::k8s {

// Hears of changes by the watch of the pool's hosts, and writes at most one slice in a second, by
// server-side apply. What changes meanwhile adds up.
//   Thread  Wake: any
class SlicePublisher final {
 public:
  // `api` outlives it. `leads`: whether this process may write.
  SlicePublisher(ApiClient* api, const pool::PoolAddress& pool, std::function<bool()> leads);
  ~SlicePublisher() { Stop(); }
  void Start();
  void Stop();
  // Who leads has changed.
  void Wake();

 private:
  void Run();
  void Listen();
  // One slice, if any is not as it should be. True: there are more.
  Result<bool> WriteOne();
  Status Adopt();
  Status Write(const DeviceSlices::Change& change);

  ApiClient* const api_;
  pool::RestClient pool_;
  pool::RestWatch watch_;
  const std::function<bool()> leads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_woken_ = false, is_stopped_ = false;
  // The publishing thread's own.
  DeviceSlices slices_;
  bool is_adopted_ = false, is_stale_ = true;  // what is known of the slices, of the hosts
  std::string said_;
  std::thread publishing_, listening_;
};

}  // namespace farcall::k8s
