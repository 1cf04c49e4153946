// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/dra/dra_service.h"

#include <cstdio>

#include "pool/k8s/dra/device_slices.h"
#include "pool/k8s/process/process.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"dra"};
namespace dra = ::k8s::io::kubelet::pkg::apis::dra::v1;

std::string ToError(const Status& why) {
  kProcess.Warn(why.message());
  return Printable(why.message(), kMaxMessageBytes);
}

}  // namespace

grpc::Status DraRegistration::GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                                      pluginregistration::PluginInfo* out) {
  out->set_type("DRAPlugin");
  out->set_name(kDraDriver);
  out->set_endpoint(socket_);
  out->add_supported_versions("v1.DRAPlugin");
  return grpc::Status::OK;
}

grpc::Status DraRegistration::NotifyRegistrationStatus(
    grpc::ServerContext*, const pluginregistration::RegistrationStatus* in,
    pluginregistration::RegistrationStatusResponse*) {
  if (!in->plugin_registered()) {
    kProcess.Warn("the kubelet does not take the driver: " + Printable(in->error()));
    return grpc::Status::OK;
  }
  std::printf("%s\n", line_.c_str());
  std::fflush(stdout);
  return grpc::Status::OK;
}

grpc::Status DraService::NodePrepareResources(grpc::ServerContext*,
                                              const dra::NodePrepareResourcesRequest* in,
                                              dra::NodePrepareResourcesResponse* out) {
  for (const dra::Claim& claim : in->claims()) {
    dra::NodePrepareResourceResponse& told = (*out->mutable_claims())[claim.uid()];
    Result<std::vector<PreparedDevice>> devices =
        claims_->Prepare(claim.namespace_(), claim.name(), claim.uid());
    if (!devices.ok()) {
      told.set_error(ToError(devices.status()));
      continue;
    }
    for (const PreparedDevice& each : *devices) {
      dra::Device* device = told.add_devices();
      device->add_request_names(each.request);
      device->set_pool_name(each.pool);
      device->set_device_name(each.device);
      if (!each.cdi.empty()) device->add_cdi_device_ids(each.cdi);
    }
  }
  return grpc::Status::OK;
}

grpc::Status DraService::NodeUnprepareResources(grpc::ServerContext*,
                                                const dra::NodeUnprepareResourcesRequest* in,
                                                dra::NodeUnprepareResourcesResponse* out) {
  for (const dra::Claim& claim : in->claims()) {
    dra::NodeUnprepareResourceResponse& told = (*out->mutable_claims())[claim.uid()];
    if (Status done = claims_->Unprepare(claim.uid()); !done.ok()) told.set_error(ToError(done));
  }
  return grpc::Status::OK;
}

}  // namespace farcall::k8s
