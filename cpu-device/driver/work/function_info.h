// SPDX-License-Identifier: Apache-2.0
// What is known of a function: attributes, parameters, and how many of its blocks fit a
// multiprocessor.
#pragma once

#include <cstddef>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

class Function;

CUresult FunctionAttribute(const Function& function, CUfunction_attribute attribute, int* value);
CUresult SetFunctionAttribute(Function& function, CUfunction_attribute attribute, int value);
CUresult ParamInfo(const Function& function, size_t index, size_t* offset, size_t* size);

// The most dynamic shared memory a launch may ask for.
int DynamicSharedLimit(const Function& function);
// Blocks of `block_size` threads that are resident on one multiprocessor at a time.
int ActiveBlocks(const Function& function, int block_size, size_t dynamic_shared);

}  // namespace farcall::cpu_device
