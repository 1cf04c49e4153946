// SPDX-License-Identifier: Apache-2.0
// ElasticGPU objects: the pool's cards, and the slices of them that claims have.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/claims/claim_object.h"
#include "pool/k8s/process/host_follower.h"

namespace farcall::k8s {

// The objects that there should be, by name: one for each GPU of each host, with how much of it is
// taken by whomever; and one for each GPU of each bound claim of the cluster, which refers to it.
std::map<std::string, nlohmann::json> GpuObjects(const pool::v1::HostList& hosts,
                                                 const std::vector<ClaimObject>& claims);

// Keeps them, by server-side apply; those of others are left alone.
//   Thread  Wake: any
class GpuPublisher final {
 public:
  // `api` outlives it. `claims`: of the cluster, as they are now. `leads`: whether this process may
  // write.
  GpuPublisher(ApiClient* api, const pool::PoolAddress& pool,
               std::function<std::vector<ClaimObject>()> claims, std::function<bool()> leads);
  ~GpuPublisher() { Stop(); }
  void Start() { follower_.Start(); }
  void Stop() { follower_.Stop(); }
  // Something has changed; who leads too.
  void Wake() { follower_.Wake(); }

 private:
  HostFollower::Next Work();
  Status Publish();
  Status ListOurs();

  ApiClient* const api_;
  pool::RestClient pool_;
  const std::function<std::vector<ClaimObject>()> claims_;
  const std::function<bool()> leads_;
  // The publishing thread's own.
  std::map<std::string, std::string> written_;  // name -> what it says
  bool is_listed_ = false;
  std::string said_;
  HostFollower follower_;  // the last: its thread uses the others
};

}  // namespace farcall::k8s
