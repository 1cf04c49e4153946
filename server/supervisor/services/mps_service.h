// SPDX-License-Identifier: Apache-2.0
// MPS for the supervisor: a control daemon for each group of sessions that trust one another,
// looked after by a thread of its own, since the daemon's commands block. A fault of one client is
// a fault of its whole group, and of no other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/supervisor/services/mps_daemon.h"
#include "sync/cond_var.h"
#include "transport/channel.h"

namespace farcall::server {

class MpsService {
 public:
  // The group's sessions are to be ended, with this as their cause.
  using End = std::function<void(const std::string& group, const std::string& why)>;
  // How many of the group's sessions there still are.
  using Count = std::function<size_t(const std::string& group)>;

  // `folder`: for what the daemons keep; it exists, and is removed at the end.
  MpsService(std::string folder, End end, Count count);
  ~MpsService();

  // The group's server takes clients when this returns; it is started if there is none.
  // `options` without a folder.
  //   Errors  kUnavailable (one line)   Thread  any that may wait, without locks of `end`'s
  Status Ensure(const std::string& group, MpsOptions options);
  // What a client of the group has in its environment.   Thread  any
  std::vector<std::string> EnvironmentOf(const std::string& group);
  // Ends the client as the driver wants it, soon.   Thread  any
  void Terminate(const std::string& group, pid_t client);
  // The group has no session any more: its daemon goes after a while.   Thread  any
  void Release(const std::string& group);

 private:
  enum class State { kStarting, kReady, kFailed };
  struct Group {
    std::unique_ptr<MpsDaemon> daemon;  // the thread's, but for its environment
    State state = State::kStarting;
    Status error;
    int misses = 0;
    Clock::time_point try_again_at{};
    Clock::time_point released_at = Clock::time_point::max();
    std::vector<pid_t> to_terminate;
  };

  void Run();
  void Tend(const std::string& name, Group& group, std::unique_lock<std::mutex>& lock);
  void Recover(const std::string& name, Group& group, const std::string& why,
               std::unique_lock<std::mutex>& lock);
  // What is wrong with a group that was well; empty: nothing.
  std::string Look(Group& group, std::unique_lock<std::mutex>& lock);

  const std::string folder_;
  const End end_;
  const Count count_;
  std::mutex mutex_;  // all below
  CondVar changed_;
  std::map<std::string, std::unique_ptr<Group>> groups_;
  int folders_made_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
