// SPDX-License-Identifier: Apache-2.0
// A kubelet for tests, as far as a DRA driver meets one: it finds the driver's socket, takes it and
// has claims prepared, by the real protocol buffers. It does as it is told by lines of JSON and
// tells by lines of JSON.
//
//   fake_dra_kubelet FOLDER    the driver's sockets are below FOLDER, as below /var/lib/kubelet
//
// stdin   {"do": "register"}, {"do": "prepare" | "unprepare", "claims": [[namespace, name, uid]]}
// stdout  {"event": "registered" | "prepared" | "unprepared", ...}
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "generated/proto/k8s/dra.grpc.pb.h"
#include "generated/proto/k8s/pluginregistration.grpc.pb.h"

namespace {

using Json = nlohmann::json;
namespace dra = k8s::io::kubelet::pkg::apis::dra::v1;
using Clock = std::chrono::system_clock;

constexpr std::chrono::seconds kLimit{45};  // a kubelet's

void Tell(const Json& line) {
  std::cout << line.dump() << std::endl;
}

class Kubelet final {
 public:
  explicit Kubelet(std::string folder) : folder_(std::move(folder)) {}

  // Waits for a driver's socket, as a kubelet does.
  void Register() {
    namespace fs = std::filesystem;
    std::string socket;
    for (const auto end = Clock::now() + kLimit; socket.empty() && Clock::now() < end;) {
      std::error_code none;
      for (const auto& file : fs::directory_iterator(folder_ + "/plugins_registry", none))
        if (file.is_socket()) socket = file.path();
      if (socket.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    auto channel = grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials());
    auto driver = pluginregistration::Registration::NewStub(channel);
    pluginregistration::PluginInfo info;
    grpc::ClientContext first, second;
    first.set_wait_for_ready(true);
    first.set_deadline(Clock::now() + kLimit);
    const grpc::Status found = driver->GetInfo(&first, {}, &info);
    Json told = {{"event", "registered"},       {"code", found.error_code()},
                 {"type", info.type()},         {"name", info.name()},
                 {"endpoint", info.endpoint()}, {"versions", Json::array()}};
    for (const std::string& version : info.supported_versions())
      told["versions"].push_back(version);
    stub_ = dra::DRAPlugin::NewStub(
        grpc::CreateChannel("unix:" + info.endpoint(), grpc::InsecureChannelCredentials()));
    pluginregistration::RegistrationStatus status;
    status.set_plugin_registered(found.ok());
    pluginregistration::RegistrationStatusResponse nothing;
    (void)driver->NotifyRegistrationStatus(&second, status, &nothing);
    Tell(told);
  }

  void Prepare(const Json& claims) {
    dra::NodePrepareResourcesRequest request;
    for (const Json& claim : claims) Fill(request.add_claims(), claim);
    dra::NodePrepareResourcesResponse answer;
    grpc::ClientContext context;
    context.set_deadline(Clock::now() + kLimit);
    const grpc::Status done = stub_->NodePrepareResources(&context, request, &answer);
    Json told = {{"event", "prepared"}, {"code", done.error_code()}, {"claims", Json::object()}};
    for (const auto& [uid, each] : answer.claims()) {
      Json devices = Json::array();
      for (const dra::Device& device : each.devices()) {
        Json one = {{"pool", device.pool_name()}, {"device", device.device_name()}};
        for (const std::string& name : device.request_names()) one["requests"].push_back(name);
        for (const std::string& id : device.cdi_device_ids()) one["cdi"].push_back(id);
        devices.push_back(std::move(one));
      }
      told["claims"][uid] = {{"devices", std::move(devices)}, {"error", each.error()}};
    }
    Tell(told);
  }

  void Unprepare(const Json& claims) {
    dra::NodeUnprepareResourcesRequest request;
    for (const Json& claim : claims) Fill(request.add_claims(), claim);
    dra::NodeUnprepareResourcesResponse answer;
    grpc::ClientContext context;
    context.set_deadline(Clock::now() + kLimit);
    const grpc::Status done = stub_->NodeUnprepareResources(&context, request, &answer);
    Json told = {{"event", "unprepared"}, {"code", done.error_code()}, {"claims", Json::object()}};
    for (const auto& [uid, each] : answer.claims()) told["claims"][uid] = each.error();
    Tell(told);
  }

 private:
  static void Fill(dra::Claim* claim, const Json& words) {
    claim->set_namespace_(words.at(0).get<std::string>());
    claim->set_name(words.at(1).get<std::string>());
    claim->set_uid(words.at(2).get<std::string>());
  }

  const std::string folder_;
  std::unique_ptr<dra::DRAPlugin::Stub> stub_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "fake_dra_kubelet FOLDER\n";
    return 2;
  }
  Kubelet kubelet(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const Json told = Json::parse(line);
    const auto verb = told.at("do").get<std::string>();
    if (verb == "register") kubelet.Register();
    if (verb == "prepare") kubelet.Prepare(told.at("claims"));
    if (verb == "unprepare") kubelet.Unprepare(told.at("claims"));
  }
  std::quick_exit(0);
}
