// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/control_desk.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "server/worker/program_path.h"

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

ControlDesk::~ControlDesk() {
  Bury();
  if (listening_ < 0) return;
  close(listening_);
  unlink(path_.c_str());
}

void ControlDesk::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void ControlDesk::Forget(int fd) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

Status ControlDesk::Open(const std::string& path, const std::string& metrics) {
  metrics_ = metrics;
  FARCALL_TRY(Listen(path));
  if (!metrics.empty()) return StartProcess();
  Watch(listening_);
  return {};
}

Status ControlDesk::Listen(const std::string& path) {
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

Status ControlDesk::StartProcess() {
  std::vector<std::string> arguments = {"farcall-control", "serve"};
  if (!metrics_.empty()) arguments.push_back("--metrics=" + metrics_);
  Result<WorkerProcess> started =
      StartProgram(ProgramBeside(kProgram), std::move(arguments), listening_);
  if (!started.ok()) return started.status();
  process_ = *started;
  Watch(process_.control);
  return {};
}

bool ControlDesk::Hear(int fd) {
  if (fd == listening_) {
    Forget(listening_);  // it accepts there from now on
    Status started = StartProcess();
    if (!started.ok()) {
      spdlog::error("no control service: {}", started.message());
      close(std::exchange(listening_, -1));
      unlink(path_.c_str());
    }
    return true;
  }
  if (fd != process_.control || fd < 0) return false;
  while (true) {
    ControlMessage question;
    std::vector<int> descriptors;
    Status received = ReceiveControl(fd, &question, &descriptors);
    for (int descriptor : descriptors) close(descriptor);
    if (received.code() == Code::kTimeout) return true;
    if (!received.ok()) break;
    answer_(question);
  }
  Bury();
  // Whoever comes next starts it again; one who waited while it died does not, or a program that
  // cannot start would be started for ever.
  int waiting = accept(listening_, nullptr, nullptr);
  if (waiting >= 0) close(waiting);
  Watch(listening_);
  return true;
}

void ControlDesk::Send(const ControlMessage& message, int descriptor) {
  if (process_.control < 0) return;
  Status sent = descriptor < 0 ? SendControl(process_.control, message)
                               : SendControl(process_.control, message, {descriptor});
  if (!sent.ok()) kill(process_.pid, SIGKILL);  // it asks and does not read
}

void ControlDesk::Bury() {
  if (process_.control < 0) return;
  Forget(process_.control);
  kill(process_.pid, SIGKILL);
  int status = 0;
  waitpid(process_.pid, &status, 0);
  close(process_.control);
  close(process_.pid_fd);
  process_ = {};
}

}  // namespace farcall::server
