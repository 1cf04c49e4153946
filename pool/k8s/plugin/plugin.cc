// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/plugin/plugin.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "pool/k8s/plugin/claim_keeper.h"
#include "pool/k8s/plugin/early_claims.h"
#include "pool/k8s/plugin/kubelet.h"
#include "pool/k8s/plugin/plugin_service.h"
#include "pool/k8s/plugin/slots.h"
#include "pool/k8s/pods/pod_watch.h"
#include "pool/k8s/process/process.h"
#include "pool/process/stop_signals.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"plugin"};
namespace pb = farcall::pool::v1;
constexpr char kSocketName[] = "farcall.sock";
constexpr int kLookMs = 1000;  // also where inotify tells nothing

// Which file is at a path: another one, once it was made anew. 0: none.
ino_t FileAt(const std::string& path) {
  struct stat told {};
  return stat(path.c_str(), &told) == 0 ? told.st_ino : 0;
}

// The two sockets and what tells of a change, until this process shall end.
class Station final {
 public:
  Station(const PluginOptions& options, PluginService* service)
      : folder_(options.kubelet + "/device-plugins"),
        own_(folder_ + "/" + kSocketName),
        kubelet_(folder_ + "/kubelet.sock"),
        options_(options),
        service_(service) {}
  ~Station() {
    for (int descriptor : {signals_, changes_})
      if (descriptor >= 0) close(descriptor);
  }

  Status Open() {
    const sigset_t signals = pool::StopSignals();
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    changes_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (signals_ < 0 || changes_ < 0 ||
        inotify_add_watch(changes_, folder_.c_str(), IN_CREATE | IN_DELETE | IN_MOVED_TO) < 0)
      return {Code::kUnavailable,
              "'" + folder_ + "': " + std::strerror(errno) + " (is there a kubelet? --kubelet)"};
    return {};
  }

  int Run() {
    while (!is_over_) {
      if (!Serve()) return kExitCannotListen;
      const ino_t own = FileAt(own_);
      const ino_t kubelet = Announce(own);
      // A kubelet removes all sockets when it starts, and makes its own anew.
      while (!is_over_ && FileAt(own_) == own && (kubelet == 0 || FileAt(kubelet_) == kubelet))
        Wait();
      service_->Stop();
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
      server_.reset();
    }
    unlink(own_.c_str());
    return kExitOk;
  }

 private:
  bool Serve() {
    unlink(own_.c_str());
    service_->Resume();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + own_, grpc::InsecureServerCredentials());
    builder.RegisterService(service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) kProcess.Warn("'" + own_ + "': cannot listen there");
    return server_ != nullptr;
  }

  // Registers; waits for a kubelet if there is none. The kubelet's socket; 0: none took us.
  ino_t Announce(ino_t own) {
    std::string said;
    while (!is_over_ && FileAt(own_) == own) {
      const ino_t kubelet = FileAt(kubelet_);
      const Status done =
          kubelet != 0 ? Register(kubelet_, kSocketName)
                       : Status(Code::kUnavailable, "waiting for a kubelet at '" + kubelet_ + "'");
      if (done.ok()) {
        std::printf("farcall: %d slots of %s on node %s, pool %s\n", options_.slots, kResource,
                    options_.node.c_str(), options_.pool.url.c_str());
        std::fflush(stdout);
        return kubelet;
      }
      if (done.message() != said) kProcess.Warn(done.message());
      said = done.message();
      Wait();
    }
    return 0;
  }

  void Wait() {
    pollfd ready[] = {{signals_, POLLIN, 0}, {changes_, POLLIN, 0}};
    if (poll(ready, 2, kLookMs) <= 0) return;
    if ((ready[0].revents & POLLIN) != 0) is_over_ = true;
    alignas(inotify_event) char passed[4096];
    while (read(changes_, passed, sizeof(passed)) > 0) continue;
  }

  const std::string folder_, own_, kubelet_;
  const PluginOptions& options_;
  PluginService* const service_;
  std::unique_ptr<grpc::Server> server_;
  int signals_ = -1, changes_ = -1;
  bool is_over_ = false;
};

// A claim that has no place at once is left in the queue, for whoever waits for it later.
Result<ContainerClaim> MakeEarly(const PodContainer& container, pb::ClaimRequest ask,
                                 bool has_token, ClaimKeeper* keeper, PodWatch* watch) {
  Result<std::string> claim = keeper->Bind(
      container, std::move(ask), ClaimKeeper::Clock::now(), [] { return false; }, true);
  // Whoever looked when the pod ended did not see this one.
  if (!watch->IsRunning(container.uid)) keeper->Wake();
  if (!claim.ok()) return claim.status();
  if (!has_token) return ContainerClaim{*claim, ""};
  Result<std::string> token = keeper->NewToken(*claim);
  if (!token.ok()) return token.status();
  return ContainerClaim{*claim, *token};
}

}  // namespace

int RunPlugin(const PluginOptions& options) {
  pool::BlockStopSignals();
  if (!IsName(options.node))
    return kProcess.Fail(
        kExitUsage, "--node " + Quoted(options.node) + ": write the node's name in Kubernetes");
  for (const auto& [flag, folder] :
       {std::pair("--libraries ", &options.libraries), {"--state ", &options.state}})
    if (folder->rfind('/', 0) != 0)
      return kProcess.Fail(kExitUsage, flag + Quoted(*folder) + ": write the whole path");
  if (access((options.libraries + "/libcuda.so.1").c_str(), R_OK) != 0)
    return kProcess.Fail(kExitUsage,
                         "--libraries " + Quoted(options.libraries) + ": no libcuda.so.1 in it");
  Result<std::string> endpoint = ContainerEndpoint(options.pool, options.endpoint);
  if (!endpoint.ok()) return kProcess.Fail(kExitUsage, endpoint.status().message());
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());

  Slots slots(options.state, options.slots);
  if (Status made = slots.Prepare(0); !made.ok())
    return kProcess.Fail(kExitFailure, made.message());
  ClaimKeeper* woken = nullptr;
  PluginService* told = nullptr;
  EarlyClaims* begun = nullptr;
  PodWatch watch(
      api->get(), options.node, [&] { woken->Wake(); }, [&](const Pod& pod) { begun->Begin(pod); });
  ClaimKeeper keeper(options.pool, options.project_root, options.node, api->get(), &watch, &slots,
                     [&](bool is_healthy) { told->SetHealth(is_healthy); });
  EarlyClaims early(options.node, [&](const PodContainer& container, pb::ClaimRequest ask) {
    return MakeEarly(container, std::move(ask), !options.pool.token.empty(), &keeper, &watch);
  });
  PluginService service({options.node, *endpoint, options.pool.token, options.pool.tls.authorities,
                         options.libraries, options.kubelet + "/pod-resources/kubelet.sock"},
                        &slots, &watch, &keeper, &early);
  woken = &keeper;
  begun = &early;
  told = &service;
  Station station(options, &service);
  if (Status opened = station.Open(); !opened.ok())
    return kProcess.Fail(kExitFailure, opened.message());
  watch.Start();
  keeper.Start();
  early.Start();
  const int code = station.Run();
  watch.Stop();
  early.Stop();
  keeper.Stop();
  return code;
}

}  // namespace farcall::k8s
