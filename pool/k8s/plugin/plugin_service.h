// SPDX-License-Identifier: Apache-2.0
// The device plugin as its kubelet calls it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "generated/proto/k8s/deviceplugin.grpc.pb.h"
#include "pool/k8s/plugin/claim_keeper.h"
#include "pool/k8s/plugin/early_claims.h"
#include "pool/k8s/plugin/slots.h"
#include "pool/k8s/pods/pod_watch.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

// What containers are given, and where the kubelet tells whose they are.
struct PluginFacts {
  std::string node;
  std::string endpoint;   // pools://host:port
  std::string token;      // of the pool; "": none
  std::string ca;         // PEM file; "": none
  std::string libraries;  // the client's, a folder of the node
  std::string pod_resources_socket;
};

//   Thread  any
class PluginService final : public v1beta1::DevicePlugin::Service {
 public:
  PluginService(PluginFacts facts, Slots* slots, PodWatch* watch, ClaimKeeper* keeper,
                EarlyClaims* early)
      : facts_(std::move(facts)), slots_(slots), watch_(watch), keeper_(keeper), early_(early) {}

  // Slots are healthy while the pool answers.
  void SetHealth(bool is_healthy);
  // Ends the streams of ListAndWatch.
  void Stop();
  // Streams begin again to be answered after Stop.
  void Resume();

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* context, const v1beta1::Empty* in,
                                      v1beta1::DevicePluginOptions* out) override;
  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* in,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* out) override;
  grpc::Status Allocate(grpc::ServerContext* context, const v1beta1::AllocateRequest* in,
                        v1beta1::AllocateResponse* out) override;
  grpc::Status PreStartContainer(grpc::ServerContext* context,
                                 const v1beta1::PreStartContainerRequest* in,
                                 v1beta1::PreStartContainerResponse* out) override;

 private:
  // Waits until the kubelet says who has the devices.   Errors  kUnavailable, kTimeout
  Result<PodContainer> FindContainer(const std::vector<std::string>& ids,
                                     ClaimKeeper::Clock::time_point deadline,
                                     grpc::ServerContext* context, Pod* pod);
  Status Attach(const std::vector<std::string>& ids, grpc::ServerContext* context);
  // The claim of a container that has `count` devices, and a token for it.
  Result<ContainerClaim> ClaimFor(const Pod& pod, const PodContainer& container, uint32_t count,
                                  ClaimKeeper::Clock::time_point deadline,
                                  grpc::ServerContext* context);
  // How often the kubelet has allocated these devices, all together.
  uint64_t AllocationsOf(const std::vector<std::string>& ids);

  const PluginFacts facts_;
  Slots* const slots_;
  PodWatch* const watch_;
  ClaimKeeper* const keeper_;
  EarlyClaims* const early_;
  std::mutex mutex_;
  CondVar changed_;
  std::map<std::string, uint64_t> allocations_;  // by device
  bool is_healthy_ = false;
  bool is_stopped_ = false;
};

}  // namespace farcall::k8s
