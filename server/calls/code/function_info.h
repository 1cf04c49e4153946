// SPDX-License-Identifier: Apache-2.0
// What the client needs of a function to launch it without asking: its attributes by id, then the
// layout of its parameters. A load that is waited for brings it along for images of few functions.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "generated/server/driver_api.h"
#include "proto/codec.h"

namespace farcall::server {

//   Returns  bytes of the packed parameters
uint64_t PutFunctionInfo(const DriverApi& api, CUfunction function, Builder& out);
uint64_t PutFunctionInfo(const DriverApi& api, CUkernel kernel, CUdevice device, Builder& out);

// Of each function {name, info}, behind their count: what a JIT makes has one or a few, and a
// program asks for them all. 0 where there are more, or the driver does not tell.
void PutFewFunctions(const DriverApi& api, CUmodule module, Builder& out);
void PutFewFunctions(const DriverApi& api, CUlibrary library, CUdevice device, Builder& out);

}  // namespace farcall::server
