// SPDX-License-Identifier: Apache-2.0
// What kernels print: formatted at once, written at synchronisation points or when much has
// gathered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace farcall::cpu_device {

// vprintf of device code. `arguments`: packed with C alignment, varargs-promoted. Returns the
// number of conversions, -1 if the format is null. May fault on wild pointers, so it holds no lock
// while it reads them.
int WriteDeviceFormat(const char* format, const uint8_t* arguments);
void WriteDeviceText(const char* text, size_t bytes);
// A failed assertion, to the standard error as CUDA writes it; at once.
void WriteAssertion(const std::string& line);

}  // namespace farcall::cpu_device
