// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/dra/dra.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include "pool/k8s/api/lease.h"
#include "pool/k8s/claims/binding.h"
#include "pool/k8s/dra/device_slices.h"
#include "pool/k8s/dra/dra_service.h"
#include "pool/k8s/dra/prepared_claims.h"
#include "pool/k8s/dra/slice_publisher.h"
#include "pool/k8s/process/probes.h"
#include "pool/k8s/process/process.h"
#include "pool/process/stop_signals.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"dra"};

std::unique_ptr<grpc::Server> ServeAt(const std::string& socket, grpc::Service* service) {
  unlink(socket.c_str());
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

}  // namespace

int RunDraSlices(const DraSlicesOptions& options) {
  pool::BlockStopSignals();
  for (const auto& [flag, name] :
       {std::pair("--namespace ", &options.space), {"--lease ", &options.lease}})
    if (!IsName(*name))
      return kProcess.Fail(kExitUsage, flag + Quoted(*name) + ": write an object's name");
  if (Status usable = pool::CheckAddress(options.pool); !usable.ok())
    return kProcess.Fail(kExitUsage, usable.message());
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());
  std::atomic<bool> is_ready{false};
  Probes probes([&] { return is_ready.load(); });
  if (Status opened = probes.Open(options.health_listen); !opened.ok())
    return kProcess.Fail(opened.code() == Code::kInvalid ? kExitUsage : kExitCannotListen,
                         opened.message());
  SlicePublisher* publisher = nullptr;
  LeaseHolder lease(
      api->get(),
      {options.space, options.lease,
       options.identity.empty() ? NewLeaseIdentity() : options.identity, options.lease_seconds},
      [&](bool leads) {
        is_ready = true;
        if (leads) {
          std::printf("farcall: driver %s publishes GPUs by lease %s/%s, pool %s\n", kDraDriver,
                      options.space.c_str(), options.lease.c_str(), options.pool.url.c_str());
          std::fflush(stdout);
        }
        publisher->Wake();
      });
  SlicePublisher slices(api->get(), options.pool, [&] { return lease.leads(); });
  publisher = &slices;
  slices.Start();
  lease.Start();
  (void)WaitForStop(-1);
  slices.Stop();
  lease.Stop();
  return kExitOk;
}

int RunDraNode(const DraNodeOptions& options) {
  pool::BlockStopSignals();
  if (!IsName(options.node))
    return kProcess.Fail(
        kExitUsage, "--node " + Quoted(options.node) + ": write the node's name in Kubernetes");
  for (const auto& [flag, folder] : {std::pair("--libraries ", &options.libraries),
                                     {"--state ", &options.state},
                                     {"--kubelet ", &options.kubelet},
                                     {"--cdi ", &options.cdi}})
    if (folder->rfind('/', 0) != 0)
      return kProcess.Fail(kExitUsage, flag + Quoted(*folder) + ": write the whole path");
  if (access((options.libraries + "/libcuda.so.1").c_str(), R_OK) != 0)
    return kProcess.Fail(kExitUsage,
                         "--libraries " + Quoted(options.libraries) + ": no libcuda.so.1 in it");
  if (Status usable = pool::CheckAddress(options.pool); !usable.ok())
    return kProcess.Fail(kExitUsage, usable.message());
  Result<std::string> endpoint = ContainerEndpoint(options.pool, options.endpoint);
  if (!endpoint.ok()) return kProcess.Fail(kExitUsage, endpoint.status().message());
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());

  const std::string folder = options.kubelet + "/plugins/" + kDraDriver;
  const std::string registry = options.kubelet + "/plugins_registry";
  for (const std::string& path : {options.kubelet + "/plugins", folder, registry})
    if (Status made = MakeFolder(path, 0750); !made.ok())
      return kProcess.Fail(kExitFailure, made.message() + " (is there a kubelet? --kubelet)");
  PreparedClaims claims(options.pool, options.project_root,
                        {options.node, *endpoint, options.pool.token, options.pool.tls.authorities,
                         options.libraries, options.state, options.cdi},
                        api->get());
  DraService service(&claims);
  const std::string socket = folder + "/dra.sock";
  const std::string registered = registry + "/" + kDraDriver + "-reg.sock";
  DraRegistration registration(socket, "farcall: driver " + std::string(kDraDriver) + " on node " +
                                           options.node + ", pool " + options.pool.url);
  // The kubelet calls the driver's socket once it has found the other.
  std::unique_ptr<grpc::Server> serving = ServeAt(socket, &service);
  if (serving == nullptr) return kProcess.Fail(kExitCannotListen, "'" + socket + "': no socket");
  std::unique_ptr<grpc::Server> registering = ServeAt(registered, &registration);
  if (registering == nullptr)
    return kProcess.Fail(kExitCannotListen, "'" + registered + "': no socket");
  claims.Start();
  (void)WaitForStop(-1);
  unlink(registered.c_str());
  for (auto* server : {&registering, &serving})
    (*server)->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  unlink(socket.c_str());
  claims.Stop();
  return kExitOk;
}

}  // namespace farcall::k8s
