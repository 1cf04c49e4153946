// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/services/control_service.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace farcall::server {

namespace {

constexpr char kProgram[] = "/libexec/farcall/farcall-control";  // beside bin/

// Whether somebody answers there: another server, or what a dead one left behind.
bool IsTaken(const sockaddr_un& address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool taken = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return taken;
}

}  // namespace

ControlService::ControlService(Closer& closer, int epoll, const Answer& answer)
    : epoll_(epoll),
      process_(closer, epoll, kProgram,
               HelperProcess::Answer<control::FromControlPlane>(
                   [answer](const control::FromControlPlane& question, const std::vector<int>&) {
                     answer(question);
                   })) {}

ControlService::~ControlService() {
  if (listening_ < 0) return;
  close(listening_);
  unlink(path_.c_str());
}

Status ControlService::Open(const std::string& path, const std::string& metrics) {
  metrics_ = metrics;
  FARCALL_TRY(Listen(path));
  if (!metrics.empty()) return StartProcess();
  WatchDescriptor(epoll_, listening_);
  return {};
}

Status ControlService::Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return {Code::kInvalid, "control socket '" + path + "': a path of at most " +
                                std::to_string(sizeof(address.sun_path) - 1) + " bytes"};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (IsTaken(address)) return {Code::kUnavailable, path + ": another server listens there"};
  unlink(path.c_str());
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t before = umask(0177);
  bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  umask(before);
  if (!bound || listen(fd, 16) != 0) {
    Status failed(Code::kUnavailable, path + ": " + strerror(errno));
    close(fd);
    return failed;
  }
  path_ = path;
  listening_ = fd;
  return {};
}

Status ControlService::StartProcess() {
  std::vector<std::string> arguments = {"farcall-control", "serve"};
  if (!metrics_.empty()) arguments.push_back("--metrics=" + metrics_);
  return process_.Start(std::move(arguments), listening_);
}

bool ControlService::OnReadable(int fd) {
  if (fd == listening_) {
    ForgetDescriptor(epoll_, listening_);  // it accepts there from now on
    Status started = StartProcess();
    if (!started.ok()) {
      spdlog::error("no control service: {}", started.message());
      close(std::exchange(listening_, -1));
      unlink(path_.c_str());
    }
    return true;
  }
  HelperProcess::Read read = process_.OnReadable(fd);
  if (read != HelperProcess::Read::kEnded) return read == HelperProcess::Read::kAnswered;
  // Whoever comes next starts it again; one who waited while it died does not, or a program that
  // cannot start would be started for ever.
  int waiting = accept(listening_, nullptr, nullptr);
  if (waiting >= 0) close(waiting);
  WatchDescriptor(epoll_, listening_);
  return true;
}

}  // namespace farcall::server
