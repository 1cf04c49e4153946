// SPDX-License-Identifier: Apache-2.0
// The collectives and the sends, as posts to a stream. Every rank of the communicator calls the
// same ones in the same order.
#pragma once

#include <cuda.h>

#include <vector>

#include "client-shim/nccl/communicator.h"

namespace farcall::nccl {

// A reduction as asked for: a basic operation, and what is done to the inputs or to the sum.
struct Reduction {
  Arithmetic arithmetic = Arithmetic::kSum;
  bool average = false;    // the sum divided by the number of ranks
  CUdeviceptr factor = 0;  // each input times this element first; 0: as it is
};

// What has to be there before the first wait of a group with such a reduction is enqueued.
ncclResult_t PrepareReduction(Communicator& comm, ncclDataType_t type, const Reduction& reduction,
                              CUstream stream);

struct Buffers {
  CUdeviceptr send, receive;
  uint64_t count;  // elements, as NCCL counts them for that collective
  ncclDataType_t type;
};

ncclResult_t AllReduce(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                       CUstream stream);
// Only `root` receives.
ncclResult_t Reduce(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                    int root, CUstream stream);
// `count` elements for each rank: the sender's buffer holds ranks * count.
ncclResult_t ReduceScatter(Communicator& comm, const Buffers& buffers, const Reduction& reduction,
                           CUstream stream);
ncclResult_t Broadcast(Communicator& comm, const Buffers& buffers, int root, CUstream stream);
// `count` elements of each rank: the receiver's buffer holds ranks * count.
ncclResult_t AllGather(Communicator& comm, const Buffers& buffers, CUstream stream);

struct Transfer {
  bool is_send;
  int peer;
  CUdeviceptr address;
  uint64_t bytes;
  CUstream stream;
};
// The sends and receives of one group, chunk by chunk in turns, so that two ranks that send to each
// other never wait for each other's receive.
ncclResult_t Transfers(Communicator& comm, const std::vector<Transfer>& transfers);

}  // namespace farcall::nccl
