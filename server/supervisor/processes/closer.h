// SPDX-License-Identifier: Apache-2.0
// Closes descriptors and reaps processes away from the supervisor's loop. Closing the last
// descriptor of a socket can wait as long as its owner has set (SO_LINGER), a descriptor that is
// still in a control socket's queue as well, a process may take seconds to leave its driver, and a
// worker's folder may hold any number of files.
#pragma once

#include <sys/types.h>

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/worker/worker_process.h"
#include "sync/cond_var.h"

namespace farcall::server {

class Closer {
 public:
  Closer();
  // Waits for what it has been given, at most kLastPatience; processes are killed before.
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Takes the descriptor; -1: nothing.   Thread  any, which does not wait
  void Close(int fd);
  // Takes the process: kills and reaps it, closes what is ours of it.   Thread  as above
  void End(const WorkerProcess& process);
  // Takes a folder of files: removes them and it.   Thread  as above
  void Remove(std::string folder);
  // Takes a group's folders: ends what is in it and removes them.   Thread  as above
  void EndGroup(std::vector<std::string> folders);
  // Descriptors, processes, folders and groups that are not gone yet.   Thread  any
  size_t pending();

 private:
  void EndGroups(std::unique_lock<std::mutex>& lock);
  void Run();

  std::mutex mutex_;  // all below
  CondVar changed_;
  std::deque<int> descriptors_;
  std::vector<pid_t> processes_;
  std::deque<std::string> folders_;
  std::vector<std::vector<std::string>> groups_;
  bool closes_ = false;  // one is being closed
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
