// SPDX-License-Identifier: Apache-2.0
// What belongs to a thread: its stack of contexts, and its own default stream in each.
#pragma once

#include <memory>
#include <vector>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

class Context;
class Stream;

std::vector<std::shared_ptr<Context>>& ContextStack();
std::shared_ptr<Stream>& ThreadStream(Context* context);
CUstreamCaptureMode& ThreadCaptureMode();
// Forgets `context` in the calling thread's stack (cuCtxDestroy of a current context).
void ForgetContext(const Context* context);

}  // namespace farcall::cpu_device
