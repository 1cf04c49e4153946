// SPDX-License-Identifier: Apache-2.0
// A function of a libnvidia-ml.so.1 that was opened.
#pragma once

#include <dlfcn.h>

namespace farcall::server {

// False: it has no such function.
template <typename Function>
bool FindNvml(void* library, const char* name, Function* into) {
  *into = reinterpret_cast<Function>(dlsym(library, name));
  return *into != nullptr;
}

}  // namespace farcall::server
