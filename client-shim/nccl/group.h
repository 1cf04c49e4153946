// SPDX-License-Identifier: Apache-2.0
// ncclGroupStart and ncclGroupEnd: what a thread calls between them begins at the end of the
// outermost group.
#pragma once

#include <functional>
#include <string>

#include "client-shim/nccl/collectives.h"

namespace farcall::nccl {

// Outside a group each runs at once.
//   A creation waits for other ranks, so those of one group run side by side.
ncclResult_t AddCreation(std::function<ncclResult_t()> creation);
// All of a group's preparations come before the first of its collectives; null: there is none.
ncclResult_t AddCollective(Communicator* comm, CUstream stream,
                           std::function<ncclResult_t()> prepare,
                           std::function<ncclResult_t()> collective);
ncclResult_t AddTransfer(Communicator* comm, const Transfer& transfer);

void StartGroup();
// What the thread's groups hold is not begun after all.
void DropGroup();
//   Errors  ncclInvalidUsage (no group), else the first failure of what was in it
ncclResult_t EndGroup();

}  // namespace farcall::nccl
