// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/kubelet.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>

#include "generated/proto/k8s/deviceplugin.grpc.pb.h"
#include "generated/proto/k8s/podresources.grpc.pb.h"
#include "pool/k8s/pods/pod.h"
#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr int kMaxAnswerBytes = 16 << 20;

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // A kubelet that comes back is another one: no channel waits out the failures of the last.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

}  // namespace

Status Register(const std::string& kubelet_socket, const std::string& plugin_name) {
  auto stub = v1beta1::Registration::NewStub(ChannelTo(kubelet_socket));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1beta1::RegisterRequest request;
  request.set_version("v1beta1");
  request.set_endpoint(plugin_name);
  request.set_resource_name(kResource);
  request.mutable_options()->set_pre_start_required(true);
  v1beta1::Empty none;
  const grpc::Status done = stub->Register(&context, request, &none);
  if (done.ok()) return {};
  const std::string said = Printable(done.error_message(), kMaxMessageBytes);
  if (done.error_code() == grpc::StatusCode::UNAVAILABLE ||
      done.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
    return {Code::kUnavailable, "kubelet at '" + kubelet_socket + "': " + said};
  return {Code::kRefused,
          "the kubelet takes no plugin for " + std::string(kResource) + ": " + said};
}

Result<v1::ListPodResourcesResponse> ListDevices(const std::string& pod_resources_socket) {
  auto stub = v1::PodResourcesLister::NewStub(ChannelTo(pod_resources_socket));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ListPodResourcesResponse told;
  const grpc::Status done = stub->List(&context, v1::ListPodResourcesRequest(), &told);
  if (!done.ok())
    return Status(Code::kUnavailable, "kubelet at '" + pod_resources_socket + "': " +
                                          Printable(done.error_message(), kMaxMessageBytes));
  return told;
}

std::optional<Holder> HolderOf(const v1::ListPodResourcesResponse& told,
                               const std::set<std::string>& ids) {
  std::optional<Holder> found;
  const v1::PodResources* holder = nullptr;
  for (const v1::PodResources& pod : told.pod_resources()) {
    for (const v1::ContainerResources& container : pod.containers()) {
      std::set<std::string> held;
      for (const v1::ContainerDevices& devices : container.devices())
        if (devices.resource_name() == kResource)
          held.insert(devices.device_ids().begin(), devices.device_ids().end());
      if (std::none_of(ids.begin(), ids.end(),
                       [&](const std::string& id) { return held.count(id) != 0; }))
        continue;
      // Within one pod, an init container's devices become those of another container.
      if (holder != nullptr && holder != &pod) return std::nullopt;
      holder = &pod;
      if (!found && held == ids) found = Holder{pod.namespace_(), pod.name(), container.name()};
    }
  }
  return found;
}

}  // namespace farcall::k8s
