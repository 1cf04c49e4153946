// SPDX-License-Identifier: Apache-2.0
// What a kubelet calls: how it learns of the driver, and claims to prepare and unprepare.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "generated/proto/k8s/dra.grpc.pb.h"
#include "generated/proto/k8s/pluginregistration.grpc.pb.h"
#include "pool/k8s/dra/prepared_claims.h"

namespace farcall::k8s {

// At the socket in plugins_registry, where a kubelet looks for drivers by itself, also once it has
// started again.
class DraRegistration final : public pluginregistration::Registration::Service {
 public:
  // `socket`: of DraService. `line`: what is printed once the kubelet has taken the driver.
  DraRegistration(std::string socket, std::string line)
      : socket_(std::move(socket)), line_(std::move(line)) {}

  grpc::Status GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                       pluginregistration::PluginInfo* out) override;
  grpc::Status NotifyRegistrationStatus(grpc::ServerContext*,
                                        const pluginregistration::RegistrationStatus* in,
                                        pluginregistration::RegistrationStatusResponse*) override;

 private:
  const std::string socket_, line_;
};

// Each claim has an answer of its own: one that fails fails alone.
class DraService final : public ::k8s::io::kubelet::pkg::apis::dra::v1::DRAPlugin::Service {
 public:
  explicit DraService(PreparedClaims* claims) : claims_(claims) {}

  grpc::Status NodePrepareResources(
      grpc::ServerContext*,
      const ::k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesRequest* in,
      ::k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesResponse* out) override;
  grpc::Status NodeUnprepareResources(
      grpc::ServerContext*,
      const ::k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesRequest* in,
      ::k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesResponse* out) override;

 private:
  PreparedClaims* const claims_;
};

}  // namespace farcall::k8s
