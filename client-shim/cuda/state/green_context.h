// SPDX-License-Identifier: Apache-2.0
// Green contexts: a share of a device's multiprocessors, and the context that works on it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/routing.h"
#include "client-shim/core/session/thread_state.h"

namespace farcall::client {

struct GreenContext {
  uint64_t handle = 0;
  Context* context = nullptr;
  CUdevResource resource{};
};

GreenContext* FindGreenContext(CUgreenCtx handle);
// The handle of the green context that `context` works on; null: it is an ordinary one.
CUgreenCtx GreenHandle(const Context* context);

// Another context for the records made in this scope.
class ContextScope {
 public:
  explicit ContextScope(Context* context) : server_(context->session), before_(Self()->current) {
    Self()->current = context;
  }
  ~ContextScope() { Self()->current = before_; }
  ContextScope(const ContextScope&) = delete;

 private:
  ServerScope server_;
  Context* before_;
};

}  // namespace farcall::client
