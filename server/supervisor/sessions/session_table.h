// SPDX-License-Identifier: Apache-2.0
// The sessions that run, and whose process is whose.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "server/supervisor/sessions/worker_session.h"

namespace farcall::server {

//   Thread  one at a time
class SessionTable {
 public:
  using Sessions = std::map<int, std::unique_ptr<WorkerSession>>;  // by control descriptor
  // A device that a session does not have: neither a device nor quota::kHostMemory.
  static constexpr int kNoDevice = -2;

  WorkerSession& Add(std::unique_ptr<WorkerSession> session);
  // Before: Find(control)
  void Remove(int control) { sessions_.erase(control); }
  // nullptr: there is none.
  WorkerSession* Find(int control) const;
  WorkerSession* Find(const SessionId& session) const;
  // Before: Find(control)
  WorkerSession& At(int control) const { return *sessions_.at(control); }
  bool empty() const { return sessions_.empty(); }
  size_t size() const { return sessions_.size(); }
  Sessions::const_iterator begin() const { return sessions_.begin(); }
  Sessions::const_iterator end() const { return sessions_.end(); }

  bool HasVgpu(const std::string& vgpu) const;
  // Nobody else has one; also where nobody has.
  bool IsOnlyVgpu(const std::string& vgpu) const;
  size_t CountInGroup(const std::string& mps_group) const;
  // Of those that count as this (WorkerSession::counted).
  size_t CountCounted(const std::string& counted) const;

  // A session counts its own devices from 0. kNoDevice: the other side does not have it.
  static int HostDevice(const WorkerSession& session, int device);
  int SessionDevice(int control, int device) const;

  // A pidfd of a worker's process, or of its client's.
  void AddProcess(int pid_fd, int control) { processes_[pid_fd] = control; }
  void RemoveProcess(int pid_fd) { processes_.erase(pid_fd); }
  // Its worker's control descriptor; none: it is none of theirs.
  std::optional<int> FindByProcess(int pid_fd) const;

 private:
  Sessions sessions_;
  std::map<int, int> processes_;  // by pidfd
};

}  // namespace farcall::server
