// SPDX-License-Identifier: Apache-2.0
// Files of memory, by which processes share what devices hold.
#pragma once

#include <cstdint>
#include <string>

namespace farcall::cpu_device {

// A file of `bytes` zeros; -1 and a line in the log: there is none. Raises the limit of descriptors
// if that is what is lacking.
int NewMemfd(const std::string& name, uint64_t bytes);
// The name that a descriptor's file was made with; empty: it is no such file.
std::string MemfdName(int fd);

}  // namespace farcall::cpu_device
