// SPDX-License-Identifier: Apache-2.0
// Keeps the ResourceSlices of the pool's GPUs.
#pragma once

#include <functional>
#include <string>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/dra/device_slices.h"
#include "pool/k8s/process/host_follower.h"

namespace farcall::k8s {

// Hears of changes by the watch of the pool's hosts, and writes at most one slice in a second, by
// server-side apply. What changes meanwhile adds up.
//   Thread  Wake: any
class SlicePublisher final {
 public:
  // `api` outlives it. `leads`: whether this process may write.
  SlicePublisher(ApiClient* api, const pool::PoolAddress& pool, std::function<bool()> leads);
  ~SlicePublisher() { Stop(); }
  void Start() { follower_.Start(); }
  void Stop() { follower_.Stop(); }
  // Who leads has changed.
  void Wake() { follower_.Wake(); }

 private:
  HostFollower::Next Publish(bool is_woken);
  // One slice, if any is not as it should be. True: there are more.
  Result<bool> WriteOne();
  Status Adopt();
  Status Write(const DeviceSlices::Change& change);

  ApiClient* const api_;
  pool::RestClient pool_;
  const std::function<bool()> leads_;
  // The publishing thread's own.
  DeviceSlices slices_;
  bool is_adopted_ = false, is_stale_ = true;  // what is known of the slices, of the hosts
  std::string said_;
  HostFollower follower_;  // the last: its thread uses the others
};

}  // namespace farcall::k8s
