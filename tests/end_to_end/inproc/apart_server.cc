// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/inproc/apart_server.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/end_to_end/inproc/inproc_server.h"

namespace farcall::inproc_test {

namespace {

constexpr char kCut = 'c', kResumes = 'r';
constexpr size_t kMaxUrl = 100;

// The child's life: says where it listens, does what it is asked, and ends with its session.
[[noreturn]] void Serve(const std::string& device_path, int socket) {
  Result<std::unique_ptr<InprocServer>> started =
      InprocServer::Start(device_path, "tcp://127.0.0.1:0");
  if (!started.ok()) {
    std::fprintf(stderr, "the server apart: %s\n", started.status().message().c_str());
    std::exit(1);
  }
  InprocServer& server = **started;
  char url[kMaxUrl] = {};
  std::snprintf(url, sizeof(url), "%s", server.url().c_str());
  if (write(socket, url, sizeof(url)) != sizeof(url)) std::exit(1);
  char command = 0;
  while (read(socket, &command, 1) == 1) {
    if (command == kCut) server.Cut();
    int answer = server.resumes();
    if (write(socket, &answer, sizeof(answer)) != sizeof(answer)) break;
  }
  (void)server.Join();  // the client has left; why is for it to judge
  started->reset();
  std::exit(0);  // a sanitizer's findings change it
}

}  // namespace

Result<std::unique_ptr<ApartServer>> ApartServer::Start(const std::string& device_path) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return Status(Code::kUnavailable, "socketpair failed");
  std::unique_ptr<ApartServer> self(new ApartServer);
  self->child_ = fork();
  if (self->child_ == 0) {
    close(sockets[0]);
    Serve(device_path, sockets[1]);
  }
  close(sockets[1]);
  self->socket_ = sockets[0];
  char url[kMaxUrl] = {};
  if (self->child_ < 0 || read(self->socket_, url, sizeof(url)) != sizeof(url))
    return Status(Code::kUnavailable, "the server's process did not start");
  self->url_ = url;
  return self;
}

ApartServer::~ApartServer() {
  (void)Join();
}

int ApartServer::Ask(char command) {
  std::lock_guard lock(mutex_);
  int answer = -1;
  if (write(socket_, &command, 1) != 1 || read(socket_, &answer, sizeof(answer)) < 0) return -1;
  return answer;
}

void ApartServer::Cut() {
  Ask(kCut);
}

int ApartServer::resumes() {
  return Ask(kResumes);
}

Status ApartServer::Join() {
  if (child_ < 0) return {};
  close(socket_);
  int status = 0;
  pid_t ended = waitpid(child_, &status, 0);
  child_ = -1;
  if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return {Code::kUnavailable, "the server's process ended with status " + std::to_string(status)};
  return {};
}

}  // namespace farcall::inproc_test
