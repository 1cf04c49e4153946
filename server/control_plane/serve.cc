// SPDX-License-Identifier: Apache-2.0
#include "server/control_plane/serve.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "proto/log_line.h"
#include "proto/printable.h"
#include "server/control/control_socket.h"
#include "server/control_plane/metrics.h"
#include "server/control_plane/service.h"
#include "server/worker/sandbox/helper_sandbox.h"

namespace farcall::control_plane {

namespace {

constexpr int kListening = server::kControlDescriptor + 1;
constexpr int kMaxCallBytes = 1 << 20;
constexpr int kMaxCallers = 64;

// The socket's mode lets in the server's user alone; so does this, wherever it was put.
bool MayCall(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == 0 || peer.uid == geteuid());
}

std::unique_ptr<prometheus::Exposer> Expose(const std::string& address,
                                            const std::shared_ptr<Metrics>& metrics) {
  if (address.empty()) return nullptr;
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, 1);
    exposer->RegisterCollectable(metrics);
    return exposer;
  } catch (const std::exception& error) {
    LogLine(LogSeverity::kError, "control",
            "no metrics on " + Quoted(address) + ": " + error.what());
    return nullptr;
  }
}

// Until the supervisor goes: its questions' socket is ours alone, so its end shows there.
void Accept(grpc::Server* grpc_server) {
  while (true) {
    pollfd watched[2] = {{kListening, POLLIN, 0}, {server::kControlDescriptor, POLLRDHUP, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if ((watched[1].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return;
    int fd = accept4(kListening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    if (!MayCall(fd))
      close(fd);
    else
      grpc::AddInsecureChannelFromFd(grpc_server, fd);
  }
}

}  // namespace

int Serve(const std::string& metrics_address) {
  if (fcntl(server::kControlDescriptor, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(kListening, F_SETFD, FD_CLOEXEC) != 0) {
    std::fprintf(stderr, "farcall-control serve: is started by farcall serve\n");
    return 2;
  }
  server::HelperRules rules;
  rules.uses_network = !metrics_address.empty();
  if (Status confined = server::ConfineHelper(rules); !confined.ok()) {
    LogLine(LogSeverity::kError, "control", confined.message());
    return 1;
  }
  SupervisorClient supervisor(server::kControlDescriptor);
  ControlService service(&supervisor);
  auto metrics = std::make_shared<Metrics>(&supervisor);
  std::unique_ptr<prometheus::Exposer> exposer = Expose(metrics_address, metrics);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(kMaxCallBytes);
  grpc::ResourceQuota quota("farcall-control");
  quota.SetMaxThreads(kMaxCallers);
  builder.SetResourceQuota(quota);
  std::unique_ptr<grpc::Server> grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) {
    LogLine(LogSeverity::kError, "control", "the control service does not start");
    return 1;
  }
  Accept(grpc_server.get());
  std::fflush(nullptr);
  _exit(0);  // watchers may be in the middle of a wait
}

}  // namespace farcall::control_plane
