// SPDX-License-Identifier: Apache-2.0
// What the supervisor offers its operators: a UNIX socket that its user alone can reach. Whoever
// connects first starts farcall-control, which accepts there, speaks gRPC, and asks the supervisor
// by control messages; so no library of the control plane, and no byte of its callers, is in the
// process that owns the ledger.
#pragma once

#include <functional>
#include <string>

#include "server/control/messages.h"
#include "server/supervisor/processes/helper_process.h"

namespace farcall::server {

class ControlService {
 public:
  // Answers one question, now or later, through Send.
  using Answer = std::function<void(const control::FromControlPlane& question)>;

  // `epoll`: the supervisor's loop, which calls OnReadable for what this one watches.
  ControlService(Closer& closer, int epoll, const Answer& answer);
  ~ControlService();

  // Opens the socket. `metrics`: host:port for Prometheus, which starts farcall-control at once;
  // empty: none.
  //   Errors  kUnavailable (why not)
  Status Open(const std::string& path, const std::string& metrics);

  // Whether `fd` was this one's to hear; hears it.
  bool OnReadable(int fd);
  // To farcall-control. Dropped if it is gone.
  void Send(const control::QuotaReply& message) { process_.Send(message); }
  void Send(const control::ServerStatus& message, int file) { process_.Send(message, {file}); }

 private:
  Status Listen(const std::string& path);
  Status StartProcess();

  const int epoll_;
  std::string path_, metrics_;
  int listening_ = -1;
  HelperProcess process_;
};

}  // namespace farcall::server
