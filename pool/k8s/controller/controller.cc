// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/controller/controller.h"

#include <atomic>
#include <cstdio>
#include <memory>

#include "pool/k8s/api/lease.h"
#include "pool/k8s/claims/pool_claims.h"
#include "pool/k8s/controller/claim_loop.h"
#include "pool/k8s/controller/cluster_view.h"
#include "pool/k8s/controller/gpu_objects.h"
#include "pool/k8s/process/probes.h"
#include "pool/k8s/process/process.h"
#include "pool/process/stop_signals.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"controller"};
constexpr int kRetrySeconds = 2;

}  // namespace

int RunController(const ControllerOptions& options) {
  pool::BlockStopSignals();
  for (const auto& [flag, name] :
       {std::pair("--namespace ", &options.space), {"--lease ", &options.lease}})
    if (!IsName(*name))
      return kProcess.Fail(kExitUsage, flag + Quoted(*name) + ": write an object's name");
  if (Status usable = pool::CheckAddress(options.pool); !usable.ok())
    return kProcess.Fail(kExitUsage, usable.message());
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());

  ClaimLoop* loop = nullptr;
  GpuPublisher* publisher = nullptr;  // null: no ElasticGPUs
  std::atomic<bool> is_ready{false};
  Probes probes([&] { return is_ready.load(); });
  if (Status opened = probes.Open(options.health_listen); !opened.ok())
    return kProcess.Fail(opened.code() == Code::kInvalid ? kExitUsage : kExitCannotListen,
                         opened.message());
  std::string cluster;
  for (std::string said; true;) {
    const Status found = FindCluster(api->get(), &cluster);
    if (found.ok()) break;
    if (found.message() != said) kProcess.Warn(found.message());
    said = found.message();
    if (WaitForStop(kRetrySeconds)) return kExitOk;
  }
  Result<std::unique_ptr<ClusterView>> view =
      ClusterView::Make(options.api, options.has_elastic, [&](const std::optional<ClaimKey>& key) {
        if (key)
          loop->Wake(*key);
        else
          loop->WakeAll();
        if (publisher != nullptr) publisher->Wake();
      });
  if (!view.ok()) return kProcess.Fail(kExitUsage, view.status().message());
  PoolClaims pool(options.pool, options.project_root, OwnerPrefix(cluster, ""),
                  [&](const std::string& uid) { loop->WakeUid(uid); });
  // The last leader renews while nobody else is seen to lead: the API server may be away.
  std::atomic<bool> has_led{false};
  LeaseHolder lease(
      api->get(),
      {options.space, options.lease,
       options.identity.empty() ? NewLeaseIdentity() : options.identity, options.lease_seconds},
      [&](bool leads) {
        is_ready = true;
        if (leads) has_led = true;
        if (leads) {
          std::printf("farcall: controller leads by lease %s/%s, pool %s\n", options.space.c_str(),
                      options.lease.c_str(), options.pool.url.c_str());
          std::fflush(stdout);
        } else {
          kProcess.Say("leads no more");
        }
        loop->WakeAll();
        if (publisher != nullptr) publisher->Wake();
      });
  ClaimLoop claims(
      api->get(), view->get(), &pool, [&] { return lease.leads(); },
      [&] { return lease.leads() || (has_led && !lease.is_others()); });
  loop = &claims;
  GpuPublisher gpus(
      api->get(), options.pool, [&] { return (*view)->AllClaims(); },
      [&] { return lease.leads() && (*view)->is_synced(); });
  if (options.has_elastic) {
    publisher = &gpus;
    gpus.Start();
  }
  (*view)->Start();
  pool.Start();
  claims.Start();
  lease.Start();
  (void)WaitForStop(-1);
  gpus.Stop();
  claims.Stop();
  lease.Stop();
  pool.Stop();
  (*view)->Stop();
  return kExitOk;
}

}  // namespace farcall::k8s
