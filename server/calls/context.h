// SPDX-License-Identifier: Apache-2.0
// What calls of several subjects do with contexts and their streams.
#pragma once

#include <cuda.h>

#include <functional>

#include "proto/wire.h"
#include "server/state/objects/context_state.h"

namespace farcall::server {

class Session;
struct ServeCall;
// A call that touches libraries, while slow library calls are under way: a library's handle keeps
// the stream it was told, and one of them may be ending that handle. The stream is gone for the
// log, and goes behind them.
Status EndStreamBehindLibraries(ServeCall& call);
// A native context that the helper has made; its slot is the handle's index.
ContextState& ComeToLife(Session& session, HandleParts parts, CUcontext native, int device,
                         bool is_primary);
// Ends the context once its work is done: `destroy` is called on the helper, and what it returns is
// the call's answer.
void EndContext(ServeCall& call, ContextState* context, std::function<CUresult()> destroy);

}  // namespace farcall::server
