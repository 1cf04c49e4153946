// SPDX-License-Identifier: Apache-2.0
// ResourceClaims that a node has prepared: each has a claim of the pool, the files by which a
// container reaches it, and a CDI file that says what the container gets.
#pragma once

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "pool/k8s/api/api_client.h"
#include "pool/k8s/claims/space_project.h"
#include "pool/k8s/dra/resource_claim.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

struct PreparedDevice {
  std::string request, pool, device;
  std::string cdi;  // its id; "": the container gets nothing
};

// Keeps nothing of its own: the pool's claim has the ResourceClaim's uid as its owner, and so have
// the files. So a driver that was away finds all again, and each call may come twice.
//   Thread  any
class PreparedClaims final {
 public:
  struct Place {
    std::string node;
    std::string endpoint, token, authorities;  // of the pool, for containers; PEM file
    std::string libraries, state, cdi;         // folders of the node
  };
  // `api` outlives it. `project_root`: as SpaceProjects has it.
  PreparedClaims(const pool::PoolAddress& pool, const std::string& project_root, Place place,
                 ApiClient* api);
  ~PreparedClaims() { Stop(); }
  void Start();  // renews the pool's claims
  void Stop();

  // The devices, once the pool has given the claim its place; waits 25 s at most. Only for a claim
  // that is reserved for a pod of this node, as the API server says.
  //   Errors  kRefused, kTimeout (no place yet), kUnavailable, kMalformed
  Result<std::vector<PreparedDevice>> Prepare(const std::string& space, const std::string& name,
                                              const std::string& uid);
  // Releases the claim and deletes the files. One that was never prepared is none.
  //   Errors  kUnavailable, kMalformed, kRefused
  Status Unprepare(const std::string& uid);

 private:
  using Clock = std::chrono::steady_clock;
  Status CheckNode(const ResourceClaim& claim);
  Result<std::string> FindHost(const ResourceClaim& claim);
  Status FindPrefix(std::string* prefix);
  // The live claims of the pool that this ResourceClaim has.
  Status List(const std::string& uid, std::vector<pool::v1::Claim>* claims);
  Result<std::string> Bind(const ResourceClaim& claim, const DeviceAsk& ask);
  Status Write(const std::string& uid, const std::string& pool_claim, size_t devices);
  std::string Folder(const std::string& uid) const { return place_.state + "/dra/" + uid; }
  std::string CdiFile(const std::string& uid) const;
  void Run();
  Status Renew();

  pool::RestClient pool_;
  SpaceProjects projects_;
  const Place place_;
  ApiClient* const api_;
  std::mutex mutex_;
  CondVar wake_;
  std::string prefix_;
  std::set<std::string> busy_;  // uids that a call is at
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace farcall::k8s
