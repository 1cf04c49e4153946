// SPDX-License-Identifier: Apache-2.0
// A cgroup for the workers of each vGPU: what they may take of this machine's memory, how many
// threads they may start, their weight on its processors. Of version 2; where that has none of
// these controllers, one in each of version 1's three hierarchies, and in that of the freezer if it
// is there. Whatever is left in a group when its last worker is gone, dies.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

class WorkerCgroups {
 public:
  // `memory_bytes`: of a vGPU's workers together; 0: they stay where the server is.
  explicit WorkerCgroups(uint64_t memory_bytes) : memory_bytes_(memory_bytes) {}
  ~WorkerCgroups();
  WorkerCgroups(const WorkerCgroups&) = delete;
  WorkerCgroups& operator=(const WorkerCgroups&) = delete;

  bool is_wanted() const { return memory_bytes_ != 0; }
  // Makes the folder that theirs lie in, below the server's own cgroup: it has to be the root one
  // or delegated to the server, and alone with it.   Errors  kUnavailable (one line)
  Status Open();
  // The same where cgroups are mounted at `mount` and the server is in `own`, for tests.
  Status OpenAt(const std::string& mount, const std::string& own);
  // Version 1: the server's own folders for memory, pids, cpu and, if it has one, the freezer, in
  // this order.
  Status OpenFirst(const std::vector<std::string>& own_folders);

  // One more worker of the vGPU. `share_milli`: its share, 0: none.   Errors  kUnavailable
  Status Add(const std::string& vgpu, pid_t worker, uint32_t share_milli);
  // One of its workers has ended and the process is gone.
  //   Returns  the folders of a group that nobody is left in who should be, for EndCgroup
  std::vector<std::string> Drop(const std::string& vgpu);

 private:
  struct Group {
    std::vector<std::string> paths;  // in each of folders_
    uint32_t workers = 0;
  };

  const uint64_t memory_bytes_;
  std::vector<std::string> folders_;  // of the groups; empty: not open
  std::string own_folder_;  // where the server moved to, so that its cgroup may have children
  std::string before_;      // where it was
  uint64_t made_ = 0;
  std::map<std::string, Group> groups_;  // by vGPU
};

// Kills what is in the group, whose folders these are, and removes it. Does not wait: processes
// take their time to end.
//   Returns  true: it is gone
bool EndCgroup(const std::vector<std::string>& folders);

}  // namespace farcall::server
