// SPDX-License-Identifier: Apache-2.0
// What a cluster's claims use of the pool, and how long they wait for it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/api/list_watch.h"

namespace farcall::k8s {

// A claim of the pool that a container of the cluster has, or a VGPUClaim.
struct ClaimUse {
  std::string space, claim;
  // Those of its pod, and `pod`, `container` or `vgpuclaim`.
  std::map<std::string, std::string> labels;
  bool waits = false;
  int64_t waited_s = 0;                        // until now; of one that waits
  uint32_t gpus = 0;                           // that it has
  uint64_t memory_bytes = 0, quota_bytes = 0;  // used, and granted; of all its GPUs
  uint64_t time_milli = 0;  // GPU time of the last second or so: 1000 is all of one GPU's
};

// A pod as far as labels go.
struct LabelledPod {
  std::string space, name, node;
  std::map<std::string, std::string> labels;
};

// Puts together what pool and cluster tell.
//   pods     by uid
//   cluster  as FindCluster has it
//   now_s    seconds since 1970
std::vector<ClaimUse> UseOf(const std::vector<pool::v1::Claim>& claims,
                            const pool::v1::PoolStatus& status,
                            const std::map<std::string, LabelledPod>& pods,
                            const std::string& cluster, int64_t now_s);

//   Thread  any
class UsageView final : private ObjectSink {
 public:
  static Result<std::unique_ptr<UsageView>> Make(const ApiAddress& api,
                                                 const pool::PoolAddress& pool);
  ~UsageView() override;
  void Start();
  void Stop();

  // Whether the pods have been told once.
  bool is_synced();
  // Not older than 2 s.   Errors  kUnavailable (pool, API server), kRefused (by one of them)
  Result<std::vector<ClaimUse>> Read();

 private:
  UsageView(std::unique_ptr<ApiClient> api, const pool::PoolAddress& pool);
  void Begin() override;
  Status Put(const nlohmann::json& object) override;
  Status Remove(const nlohmann::json& object) override;
  void Synced() override;
  void Lost(const Status& why) override;
  Status Ask(std::vector<ClaimUse>* uses);

  const std::unique_ptr<ApiClient> api_;
  pool::RestClient pool_;
  ListWatch watch_;
  std::mutex mutex_;  // pods_, is_synced_
  std::map<std::string, LabelledPod> pods_;
  bool is_synced_ = false;
  // The watch's thread's.
  std::map<std::string, LabelledPod> listed_;
  bool is_listing_ = false;
  std::mutex asking_;  // those below
  std::string cluster_;
  std::vector<ClaimUse> uses_;
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace farcall::k8s
