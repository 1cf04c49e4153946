// SPDX-License-Identifier: Apache-2.0
// `farcall-pool agent`: beside a supervisor that is in a pool; passes reports and answers on.
#pragma once

#include "pool/client/rest_client.h"

namespace farcall::pool {

// Descriptors: 3 the supervisor's control socket, 4 a memory file with the join token. `pool`:
// without a token. The process's exit code.
int RunAgent(const PoolAddress& pool);

}  // namespace farcall::pool
