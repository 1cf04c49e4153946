// SPDX-License-Identifier: Apache-2.0
// ucx:// in this process, for the suite over every transport: who is accepted gets a UCX end at
// once. The URL names UCX's own transport: ucx://127.0.0.1:0/tcp.
#pragma once

#include <string>

#include "transport/ucx/ucx_api.h"

namespace farcall::test {

// After it Dial and Listen know ucx://. False: there is no UCX here.
bool AddUcxForTests();

// A context that uses this transport of UCX alone; null: it cannot.
UcxContext* UcxContextFor(const std::string& transport);

}  // namespace farcall::test
