// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator find each other: a TCP meeting point in the process that made the
// unique id. It carries a few hundred bytes a rank at creation, split and destruction; the
// collectives themselves never touch it.
//
// A message is {u32 kind, u32 round, u32 bytes} and its bytes. Ranks prove with the id's secret
// that they were invited.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client-shim/nccl/base/api.h"

namespace farcall::nccl {

inline constexpr int kMaxRanks = 1024;
inline constexpr size_t kMaxBlobBytes = 4096;

// Opens a meeting point, served by a thread of this process until every rank has left.
//   Errors  ncclSystemError (no socket, no thread)
ncclResult_t OpenMeeting(ncclUniqueId* id);

// One rank's end. Not for several threads at once.
class Bootstrap {
 public:
  ~Bootstrap();

  // Waits until all `ranks` have come.
  //   Errors  ncclInvalidArgument (no id of ours), ncclSystemError (not reachable), ncclRemoteError
  //   (a rank left)
  static ncclResult_t Join(const ncclUniqueId& id, int rank, int ranks,
                           std::unique_ptr<Bootstrap>* joined);
  // Every rank's blob, in the order of ranks. Collective.
  //   Errors  ncclRemoteError (a rank left, or the meeting point is gone)
  ncclResult_t AllGather(const std::string& mine, std::vector<std::string>* all);
  // False once another rank has gone without a word. Does not wait.
  bool AllPresent();

 private:
  Bootstrap(int socket, int ranks) : socket_(socket), ranks_(ranks) {}

  int socket_, ranks_;
  uint32_t round_ = 0;
  bool lost_ = false;
};

}  // namespace farcall::nccl
