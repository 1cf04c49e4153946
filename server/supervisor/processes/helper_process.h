// SPDX-License-Identifier: Apache-2.0
// A program of ours beside the supervisor that speaks to the world for it and asks it by control
// messages. It decides nothing and may die at any time.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "server/control/control_socket.h"
#include "server/supervisor/processes/closer.h"
#include "server/worker/worker_process.h"

namespace farcall::server {

// Of one process, before the others are heard.
inline constexpr int kMessagesPerTurn = 64;

// Of the supervisor's loop: whether there is something to read.
void WatchDescriptor(int epoll, int fd);
void ForgetDescriptor(int epoll, int fd);

class HelperProcess {
 public:
  // Receives one message of its and answers it; the descriptors are closed after it.
  using Receive = std::function<Status(int fd, std::vector<int>* descriptors)>;
  // `answer`: of a message of these (server/control/messages.h).
  template <typename Messages>
  static Receive Answer(
      std::function<void(const Messages&, const std::vector<int>& descriptors)> answer) {
    return [answer = std::move(answer)](int fd, std::vector<int>* descriptors) {
      Messages message;
      FARCALL_TRY(control::Receive(fd, &message, descriptors));
      answer(message, *descriptors);
      return Status();
    };
  }

  // `epoll`: the supervisor's loop, which calls OnReadable. `program`: beside bin/; null: this one
  // again.
  HelperProcess(Closer& closer, int epoll, const char* program, Receive receive)
      : closer_(closer), epoll_(epoll), program_(program), receive_(std::move(receive)) {}
  ~HelperProcess() { Reap(); }
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  bool runs() const { return process_.control >= 0; }
  int control() const { return process_.control; }  // to be heard; -1: it does not run
  // As StartProgram has them.   Before: not runs()   Errors  kUnavailable
  Status Start(std::vector<std::string> arguments, int inherited);
  enum class Read { kNotOurs, kAnswered, kEnded };  // kEnded: it is reaped
  Read OnReadable(int fd);
  // Dropped if it is gone; one that does not read is ended.
  template <control::Message M>
  void Send(const M& message, std::initializer_list<int> descriptors = {}) {
    if (runs() && !control::Send(process_.control, message, descriptors).ok())
      KillProcess(process_);
  }
  // Kills it, if it runs.
  void End() { Reap(); }

 private:
  void Reap();

  Closer& closer_;
  const int epoll_;
  const char* const program_;
  const Receive receive_;
  WorkerProcess process_{};
};

}  // namespace farcall::server
