// SPDX-License-Identifier: Apache-2.0
// What a process pays once, measured in processes of their own.
#pragma once

#include <string>

namespace farcall::bench {

struct StartFigures {
  double initialised_ms = 0;    // libcuda loaded, cuInit
  double first_kernel_ms = 0;   // the first kernel that a process compiles: opens the compiler
  double cold_kernel_ms = 0;    // the next one, of 100 statements: load, launch, wait
  double cached_kernel_ms = 0;  // the same from the disk cache, in another process
};

// The least of `rounds`, each with a cache folder and kernels of its own.
StartFigures MeasureStart(const std::string& library, int rounds);
// What the processes do: `program --child LIBRARY NONCE`.
int RunChild(const std::string& library, const std::string& nonce);

}  // namespace farcall::bench
