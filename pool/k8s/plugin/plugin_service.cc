// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/plugin_service.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "pool/k8s/plugin/kubelet.h"
#include "proto/log_line.h"
#include "proto/printable.h"
#include "proto/text_file.h"

namespace farcall::k8s {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{25};                              // the kubelet's is 30
constexpr milliseconds kFirstLookPause{10}, kLookPause{200};  // each twice the one before
constexpr seconds kStreamPause{1};  // until a stream notices that its kubelet has gone
// In the container.
constexpr char kSettingsFolder[] = "/etc/farcall";
constexpr char kLibraryFolder[] = "/usr/local/lib/farcall";

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  if (status.code() == Code::kInvalid) code = grpc::StatusCode::INVALID_ARGUMENT;
  if (status.code() == Code::kRefused) code = grpc::StatusCode::FAILED_PRECONDITION;
  if (status.code() == Code::kUnavailable || status.code() == Code::kTimeout)
    code = grpc::StatusCode::UNAVAILABLE;
  return {code, "farcall: " + Printable(status.message(), kMaxMessageBytes)};
}

template <typename Repeated>
std::vector<std::string> Texts(const Repeated& ids) {
  return {ids.begin(), ids.end()};
}

}  // namespace

void PluginService::SetHealth(bool is_healthy) {
  {
    std::lock_guard lock(mutex_);
    is_healthy_ = is_healthy;
  }
  changed_.notify_all();
}

void PluginService::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
}

void PluginService::Resume() {
  std::lock_guard lock(mutex_);
  is_stopped_ = false;
}

grpc::Status PluginService::GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                                   v1beta1::DevicePluginOptions* out) {
  out->set_pre_start_required(true);
  return grpc::Status::OK;
}

grpc::Status PluginService::ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                                         grpc::ServerWriter<v1beta1::ListAndWatchResponse>* out) {
  std::unique_lock lock(mutex_);
  while (!is_stopped_ && !context->IsCancelled()) {
    const bool told = is_healthy_;
    lock.unlock();
    v1beta1::ListAndWatchResponse all;
    for (int slot = 0; slot < slots_->count(); ++slot) {
      v1beta1::Device* device = all.add_devices();
      device->set_id(Slots::Id(slot));
      device->set_health(told ? "Healthy" : "Unhealthy");
    }
    const bool is_sent = out->Write(all);
    lock.lock();
    if (!is_sent) break;
    while (
        !changed_.wait_for(lock, kStreamPause, [&] { return is_stopped_ || is_healthy_ != told; }))
      if (context->IsCancelled()) break;
  }
  return grpc::Status::OK;
}

grpc::Status PluginService::Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* in,
                                     v1beta1::AllocateResponse* out) {
  for (const v1beta1::ContainerAllocateRequest& request : in->container_requests()) {
    Result<int> slot = slots_->SlotOf(Texts(request.devicesids()));
    if (!slot.ok()) return ToGrpc(slot.status());
    if (Status made = slots_->Prepare(*slot); !made.ok()) return ToGrpc(made);
    {
      std::lock_guard lock(mutex_);
      for (const std::string& id : request.devicesids()) ++allocations_[id];
    }
    v1beta1::ContainerAllocateResponse* given = out->add_container_responses();
    for (const auto& [inside, outside] :
         {std::pair(kSettingsFolder, slots_->Folder(*slot)), {kLibraryFolder, facts_.libraries}}) {
      v1beta1::Mount* mount = given->add_mounts();
      mount->set_container_path(inside);
      mount->set_host_path(outside);
      mount->set_read_only(true);
    }
    (*given->mutable_envs())["LD_LIBRARY_PATH"] = kLibraryFolder;
  }
  return grpc::Status::OK;
}

grpc::Status PluginService::PreStartContainer(grpc::ServerContext* context,
                                              const v1beta1::PreStartContainerRequest* in,
                                              v1beta1::PreStartContainerResponse*) {
  const Status attached = Attach(Texts(in->devicesids()), context);
  if (!attached.ok()) LogLine(LogSeverity::kWarn, "k8s-plugin", attached.message());
  return ToGrpc(attached);
}

Result<PodContainer> PluginService::FindContainer(const std::vector<std::string>& ids,
                                                  ClaimKeeper::Clock::time_point deadline,
                                                  grpc::ServerContext* context, Pod* pod) {
  const std::set<std::string> wanted(ids.begin(), ids.end());
  for (milliseconds pause = kFirstLookPause;; pause = std::min(pause * 2, kLookPause)) {
    Result<v1::ListPodResourcesResponse> told = ListDevices(facts_.pod_resources_socket);
    std::optional<Holder> holder;
    if (told.ok()) holder = HolderOf(*told, wanted);
    if (holder) {
      Result<Pod> read = watch_->Read(holder->space, holder->pod);
      const std::string who = "pod " + holder->space + "/" + holder->pod;
      if (!read.ok() && read.status().code() != Code::kUnavailable)
        return Status(read.status().code(), who + ": " + read.status().message());
      if (read.ok()) {
        *pod = *read;
        if (pod->node != facts_.node)
          return Status(Code::kRefused, who + " is not bound to node " + facts_.node);
        if (pod->is_over) return Status(Code::kRefused, who + " is over");
        auto asked = pod->asked.find(holder->container);
        if (asked == pod->asked.end() || asked->second != std::to_string(ids.size()))
          return Status(Code::kRefused, who + " does not ask for " + std::to_string(ids.size()) +
                                            " " + kResource + " in container " + holder->container);
        return PodContainer{pod->space, pod->name, pod->uid, holder->container};
      }
      if (ClaimKeeper::Clock::now() + kLookPause >= deadline) return read.status();
    }
    if (context->IsCancelled()) return Status(Code::kTimeout, "the kubelet has given up");
    if (ClaimKeeper::Clock::now() + kLookPause >= deadline)
      return told.ok() ? Status(Code::kTimeout,
                                "the kubelet does not say which one container has " + ids.front())
                       : told.status();
    std::this_thread::sleep_for(pause);
  }
}

uint64_t PluginService::AllocationsOf(const std::vector<std::string>& ids) {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const std::string& id : ids)
    if (auto at = allocations_.find(id); at != allocations_.end()) sum += at->second;
  return sum;
}

Result<ContainerClaim> PluginService::ClaimFor(const Pod& pod, const PodContainer& container,
                                               uint32_t count,
                                               ClaimKeeper::Clock::time_point deadline,
                                               grpc::ServerContext* context) {
  auto is_cancelled = [context] { return context->IsCancelled(); };
  Result<Ask> ask = ReadAsk(pod, container.container);
  if (!ask.ok()) return ask.status();
  Result<std::string> claim = Status(Code::kInternal, "");
  if (ask->claim.empty()) {
    if (std::optional<ContainerClaim> early = early_->Take(container, deadline, is_cancelled))
      return *early;
    ask->request.set_count(count);
    FARCALL_TRY(keeper_->SizeMemory(&*ask));
    claim = keeper_->Bind(container, ask->request, deadline, is_cancelled);
  } else {
    claim = keeper_->BindNamed(container, ask->claim, count, deadline, is_cancelled);
  }
  if (!claim.ok()) return claim.status();
  // The plugin's own token opens every claim of the cluster: it stays here.
  if (facts_.token.empty()) return ContainerClaim{*claim, ""};
  Result<std::string> token = keeper_->NewToken(*claim);
  if (!token.ok()) return token.status();
  return ContainerClaim{*claim, *token};
}

Status PluginService::Attach(const std::vector<std::string>& ids, grpc::ServerContext* context) {
  const auto deadline = ClaimKeeper::Clock::now() + kPatience;
  Result<int> slot = slots_->SlotOf(ids);
  if (!slot.ok()) return slot.status();
  const uint64_t allocations = AllocationsOf(ids);
  Pod pod;
  Result<PodContainer> container = FindContainer(ids, deadline, context, &pod);
  if (!container.ok()) return container.status();
  const std::string who =
      "pod " + pod.space + "/" + pod.name + ", container " + container->container;
  Result<ContainerClaim> claim =
      ClaimFor(pod, *container, static_cast<uint32_t>(ids.size()), deadline, context);
  if (!claim.ok()) return {claim.status().code(), who + ": " + claim.status().message()};
  Binding binding{facts_.endpoint, claim->claim, claim->token, ""};
  if (!facts_.ca.empty()) {
    Result<std::string> ca = ReadTextFile(facts_.ca);
    if (!ca.ok()) return {ca.status().code(), "'" + facts_.ca + "': " + ca.status().message()};
    binding.ca = *ca;
  }
  // A pod that is deleted while its container starts loses its devices at once. Then the kubelet
  // has named their next holder above, whose claim is not for the container of this call.
  if (AllocationsOf(ids) != allocations)
    return {Code::kRefused, ids.front() + " was given to another container meanwhile"};
  FARCALL_TRY(slots_->Write(*slot, binding));
  LogLine(LogSeverity::kInfo, "k8s-plugin",
          who + " has claim " + claim->claim + " at " + ids.front());
  return {};
}

}  // namespace farcall::k8s
