// SPDX-License-Identifier: Apache-2.0
// `farcall-pool agent`: beside a supervisor that is in a pool; passes reports and answers on.
#pragma once

#include <string>

namespace farcall::pool {

// Descriptors: 3 the supervisor's control socket, 4 a memory file with the join token. `ca_file` as
// PoolAddress has it. The process's exit code.
int RunAgent(const std::string& pool_url, const std::string& ca_file);

}  // namespace farcall::pool
