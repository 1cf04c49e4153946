// SPDX-License-Identifier: Apache-2.0
// What every example shares: checked CUDA calls and the one line of result.
#pragma once

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Stops the program with one FAIL line when a runtime call does not return cudaSuccess.
#define CUDA_CHECK(call) example::CheckCuda((call), #call, __FILE__, __LINE__)

namespace example {

// The example's name in its PASS or FAIL line; main() sets it first.
inline const char* name = "example";

inline void Print(const char* verdict, const char* format, va_list arguments) {
  std::printf("%s %s: ", verdict, name);
  std::vprintf(format, arguments);
  std::printf("\n");
  std::fflush(stdout);
}

// Ends main(): `return example::Pass(...)`.
inline int Pass(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Print("PASS", format, arguments);
  va_end(arguments);
  return 0;
}

// Stops the program; exit code 1.
[[noreturn]] inline void Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Print("FAIL", format, arguments);
  va_end(arguments);
  std::exit(1);
}

inline void CheckCuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  const bool no_device = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                         status == cudaErrorStubLibrary;
  const char* slash = std::strrchr(file, '/');
  Fail("%s:%d: %s: %s (%d, %s)%s", slash ? slash + 1 : file, line, call, cudaGetErrorName(status),
       static_cast<int>(status), cudaGetErrorString(status),
       no_device ? "; no CUDA driver with a device was found: run it on a machine with a GPU, or "
                   "with `farcall run -- PROGRAM`"
                 : "");
}

// Checks a launch (its configuration now, its execution at the next synchronising call).
#define LAUNCH_CHECK() CUDA_CHECK(cudaGetLastError())

inline int DivideUp(int count, int by) {
  return (count + by - 1) / by;
}

// A small generator, so that every run and every machine sees the same data.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed) {}

  unsigned Next() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }

  // Uniform in [low, high).
  float Uniform(float low, float high) {
    return low + (high - low) * (static_cast<float>(Next()) / 16777216.0f);
  }

 private:
  unsigned state_;
};

}  // namespace example
