// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/helper_process.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "server/worker/sandbox/program_path.h"

namespace farcall::server {

void WatchDescriptor(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

void ForgetDescriptor(int epoll, int fd) {
  epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);
}

Status HelperProcess::Start(std::vector<std::string> arguments, int inherited) {
  std::string path = program_ == nullptr ? "/proc/self/exe" : ProgramBeside(program_);
  Result<WorkerProcess> started = StartProgram(path, std::move(arguments), inherited);
  if (!started.ok()) return started.status();
  process_ = *started;
  WatchDescriptor(epoll_, process_.control);
  return {};
}

HelperProcess::Read HelperProcess::OnReadable(int fd) {
  if (!runs() || fd != process_.control) return Read::kNotOurs;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    std::vector<int> descriptors;
    Status received = receive_(fd, &descriptors);
    for (int descriptor : descriptors) closer_.Close(descriptor);
    if (received.code() == Code::kTimeout || !runs()) return Read::kAnswered;
    if (!received.ok()) {
      Reap();
      return Read::kEnded;
    }
  }
  return Read::kAnswered;
}

void HelperProcess::Reap() {
  if (!runs()) return;
  ForgetDescriptor(epoll_, process_.control);
  closer_.End(std::exchange(process_, {}));
}

}  // namespace farcall::server
