// SPDX-License-Identifier: Apache-2.0
// A user id of its own for the workers of each vGPU, out of a range that belongs to nobody else on
// this machine: so that they cannot signal, trace or read the files of others. Those of one vGPU
// share events, which drivers let one user's processes do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "proto/status.h"

namespace farcall::server {

struct UserRange {
  uid_t first = 0;
  uint32_t count = 0;  // 0: workers run as the server does
};

// "700000-700255".   Errors  kInvalid: no such range, or root in it
Result<UserRange> ParseUserRange(std::string_view text);

//   Thread  any
class WorkerUsers {
 public:
  explicit WorkerUsers(UserRange range) : range_(range) {}

  bool separate() const { return range_.count != 0; }
  // For one more worker of the vGPU.   Errors  kUnavailable: all are in use
  Result<uid_t> Take(const std::string& vgpu);
  // What is held for a name is a vGPU's from now on, which has no worker yet.
  void Rename(const std::string& from, const std::string& vgpu);
  // One of its workers has ended and the process is gone.
  void GiveBack(const std::string& vgpu);

 private:
  const UserRange range_;
  std::mutex mutex_;
  struct Use {
    uid_t user = 0;
    uint32_t workers = 0;
  };
  std::map<std::string, Use> uses_;  // by vGPU
  std::set<uid_t> taken_;
  uint32_t next_ = 0;  // round: an id rests as long as possible before another tenant has it
};

// This process becomes that user for good: no groups, no capabilities, no home, a bounded number of
// threads.
//   Errors  kUnavailable
//   Thread  the only one
Status BecomeUser(uid_t user);

}  // namespace farcall::server
