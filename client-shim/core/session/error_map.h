// SPDX-License-Identifier: Apache-2.0
// Where the two error planes meet: what an application sees when *we* failed.
#pragma once

#include <cuda.h>

#include "proto/status.h"

namespace farcall::client {

// A failure before a session exists: cuInit's answer.
CUresult MapConnectError(Code code);
// A failure of a running session.
CUresult MapSessionError(Code code);
// An error after which every call of the context fails, as CUDA documents it.
bool IsSticky(CUresult result);

}  // namespace farcall::client
