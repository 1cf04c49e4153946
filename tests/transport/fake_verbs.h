// SPDX-License-Identifier: Apache-2.0
// A card of this process's memory, behind the table of libibverbs: queue pairs that reach each
// other, with keys, bounds and rights checked, slots that run out, and completions in order.
#pragma once

#include "transport/verbs/verbs_api.h"

namespace farcall::test {

// One device "fake0", port 1, a GID of RoCE 2.
VerbsApi FakeVerbs();

}  // namespace farcall::test
