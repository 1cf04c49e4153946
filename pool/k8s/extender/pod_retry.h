// SPDX-License-Identifier: Apache-2.0
// Makes a scheduler try pods again that the pool had no room for, once it has.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/pods/pod.h"
#include "pool/k8s/process/host_follower.h"

namespace farcall::k8s {

// The object whose change makes schedulers try all pods again. A CSINode is what schedulers of all
// versions watch for that and no controller acts on; this one is of no node and has no driver. So
// the extender need not be allowed to change pods or nodes, but this object alone.
inline constexpr char kRoomPath[] = "/apis/storage.k8s.io/v1/csinodes/farcall-room";
inline constexpr char kRoomAnnotation[] = "k8s.farcall.io/room";

// Learns of room by the watch of the pool's hosts. The object is changed only if a pod that waits
// would fit, and at most once in a second.
//   Thread  Add, Remove: any
class PodRetry final {
 public:
  // `fits`: whether the pool has room for the pod now; kRefused: it has none. `api` outlives it.
  PodRetry(ApiClient* api, const pool::PoolAddress& pool, std::function<Status(const Pod&)> fits);
  ~PodRetry() { Stop(); }
  void Start() { follower_.Start(); }
  void Stop() { follower_.Stop(); }

  // Before the pool is asked for the pod's room, so that no room that comes free meanwhile is
  // missed. Of 4096 pods at least; for 10 minutes: a scheduler asks again before that.
  void Add(const Pod& pod);
  // It has its room, or will never fit.
  void Remove(const std::string& uid);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Pod pod;
    Clock::time_point asked;
  };
  HostFollower::Next Work();
  // Pods that ask for the same are one.
  std::vector<Pod> Distinct();
  // Whether any of them fits.   Errors  of `fits_`, but kRefused
  Result<bool> HasRoom(const std::vector<Pod>& pods);
  // Changes the object: all pods that wait are asked for again by their scheduler, so they are
  // forgotten here.
  Status Touch();

  ApiClient* const api_;
  const std::function<Status(const Pod&)> fits_;
  std::mutex mutex_;
  std::map<std::string, Waiting> waiting_;  // by uid
  std::string said_;                        // the follower's thread's own
  HostFollower follower_;                   // the last: its thread uses the others
};

}  // namespace farcall::k8s
