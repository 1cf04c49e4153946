// SPDX-License-Identifier: Apache-2.0
// A kubelet for tests, as far as a device plugin meets one: its sockets and calls, by the real
// protocol buffers. It does as it is told by lines of JSON and tells by lines of JSON.
//
//   fake_kubelet FOLDER        device-plugins/kubelet.sock and pod-resources/kubelet.sock in FOLDER
//
// stdin   {"do": "allocate", "ids": [...]}, {"do": "prestart", "ids": [...], "tag": T},
//         {"do": "pods", "pods": [{"namespace", "name", "containers": [{"name", "ids"}]}]}
// stdout  {"event": "ready" | "registered" | "devices" | "allocated" | "prestarted" | "ended", ...}
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "generated/proto/k8s/deviceplugin.grpc.pb.h"
#include "generated/proto/k8s/podresources.grpc.pb.h"

namespace {

using Json = nlohmann::json;

void Tell(const Json& line) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::cout << line.dump() << std::endl;
}

class Kubelet final : public v1beta1::Registration::Service,
                      public v1::PodResourcesLister::Service {
 public:
  explicit Kubelet(std::string folder) : folder_(std::move(folder)) {}

  grpc::Status Register(grpc::ServerContext*, const v1beta1::RegisterRequest* in,
                        v1beta1::Empty*) override {
    auto channel = grpc::CreateChannel("unix:" + folder_ + "/device-plugins/" + in->endpoint(),
                                       grpc::InsecureChannelCredentials());
    std::shared_ptr<v1beta1::DevicePlugin::Stub> stub = v1beta1::DevicePlugin::NewStub(channel);
    {
      std::lock_guard lock(mutex_);
      plugin_ = stub;
    }
    Tell({{"event", "registered"},
          {"version", in->version()},
          {"endpoint", in->endpoint()},
          {"resource", in->resource_name()},
          {"pre_start", in->options().pre_start_required()}});
    std::thread([stub] { Follow(stub); }).detach();
    return grpc::Status::OK;
  }

  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* out) override {
    std::lock_guard lock(mutex_);
    *out = pods_;
    return grpc::Status::OK;
  }

  void SetPods(const Json& pods) {
    std::lock_guard lock(mutex_);
    pods_.Clear();
    for (const Json& pod : pods) {
      v1::PodResources* told = pods_.add_pod_resources();
      told->set_namespace_(pod.at("namespace").get<std::string>());
      told->set_name(pod.at("name").get<std::string>());
      for (const Json& container : pod.at("containers")) {
        v1::ContainerResources* held = told->add_containers();
        held->set_name(container.at("name").get<std::string>());
        // One for each device, as newer kubelets have it for devices of several NUMA nodes.
        for (const Json& id : container.at("ids")) {
          v1::ContainerDevices* devices = held->add_devices();
          devices->set_resource_name(container.value("resource", "farcall.io/vgpu"));
          devices->add_device_ids(id.get<std::string>());
        }
      }
    }
  }

  void Allocate(const std::vector<std::string>& ids) {
    v1beta1::AllocateRequest request;
    auto* container = request.add_container_requests();
    for (const std::string& id : ids) container->add_devicesids(id);
    v1beta1::AllocateResponse answer;
    grpc::ClientContext context;
    const grpc::Status done = Plugin()->Allocate(&context, request, &answer);
    Json told = {
        {"event", "allocated"}, {"code", done.error_code()}, {"message", done.error_message()}};
    for (const auto& given : answer.container_responses()) {
      for (const auto& mount : given.mounts())
        told["mounts"][mount.container_path()] = {{"host", mount.host_path()},
                                                  {"read_only", mount.read_only()}};
      for (const auto& [name, value] : given.envs()) told["env"][name] = value;
    }
    Tell(told);
  }

  void PreStart(const std::vector<std::string>& ids, const std::string& tag) {
    std::shared_ptr<v1beta1::DevicePlugin::Stub> plugin = Plugin();
    std::thread([plugin, ids, tag] {
      v1beta1::PreStartContainerRequest request;
      for (const std::string& id : ids) request.add_devicesids(id);
      v1beta1::PreStartContainerResponse answer;
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
      const grpc::Status done = plugin->PreStartContainer(&context, request, &answer);
      Tell({{"event", "prestarted"},
            {"tag", tag},
            {"code", done.error_code()},
            {"message", done.error_message()}});
    }).detach();
  }

 private:
  std::shared_ptr<v1beta1::DevicePlugin::Stub> Plugin() {
    std::lock_guard lock(mutex_);
    return plugin_;
  }

  static void Follow(const std::shared_ptr<v1beta1::DevicePlugin::Stub>& stub) {
    grpc::ClientContext context;
    auto stream = stub->ListAndWatch(&context, v1beta1::Empty());
    v1beta1::ListAndWatchResponse all;
    while (stream->Read(&all)) {
      int healthy = 0;
      for (const auto& device : all.devices()) healthy += device.health() == "Healthy" ? 1 : 0;
      Tell({{"event", "devices"},
            {"healthy", healthy},
            {"unhealthy", all.devices_size() - healthy},
            {"first", all.devices_size() == 0 ? "" : all.devices(0).id()}});
    }
    Tell({{"event", "ended"}});
  }

  const std::string folder_;
  std::mutex mutex_;
  std::shared_ptr<v1beta1::DevicePlugin::Stub> plugin_;
  v1::ListPodResourcesResponse pods_;
};

std::unique_ptr<grpc::Server> Listen(const std::string& socket, grpc::Service* service) {
  std::filesystem::remove(socket);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "fake_kubelet FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  // As the real one does when it starts.
  for (const auto& file : std::filesystem::directory_iterator(folder + "/device-plugins"))
    std::filesystem::remove(file.path());
  Kubelet kubelet(folder);
  auto resources = Listen(folder + "/pod-resources/kubelet.sock",
                          static_cast<v1::PodResourcesLister::Service*>(&kubelet));
  auto registration = Listen(folder + "/device-plugins/kubelet.sock",
                             static_cast<v1beta1::Registration::Service*>(&kubelet));
  Tell({{"event", "ready"}});
  for (std::string line; std::getline(std::cin, line);) {
    const Json told = Json::parse(line);
    const auto verb = told.at("do").get<std::string>();
    if (verb == "pods") kubelet.SetPods(told.at("pods"));
    if (verb == "allocate") kubelet.Allocate(told.at("ids"));
    if (verb == "prestart") kubelet.PreStart(told.at("ids"), told.value("tag", ""));
  }
  std::quick_exit(0);
}
