// SPDX-License-Identifier: Apache-2.0
// A walk along the runtime: each call prints its text, its code and the last error it left; values
// print below it. The same program runs on two libcudarts, so nothing that differs from run to run
// (an address, a time) is printed.
#pragma once

#include <cuda_runtime.h>
#include <setjmp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// Where a call that kills the process comes back: not every runtime looks at every pointer.
extern sigjmp_buf g_back;

// Evaluates a call. What it left behind is read, so the next line begins clean.
#define T(call)                                                                                \
  do {                                                                                         \
    if (sigsetjmp(g_back, 1) != 0) {                                                           \
      std::printf("%s -> killed\n", #call);                                                    \
      cudaGetLastError();                                                                      \
      break;                                                                                   \
    }                                                                                          \
    const cudaError_t code_ = (call);                                                          \
    const cudaError_t peeked_ = cudaPeekAtLastError(), last_ = cudaGetLastError();             \
    std::printf("%s -> %s %s %s\n", #call, cudaGetErrorName(code_), cudaGetErrorName(peeked_), \
                cudaGetErrorName(last_));                                                      \
  } while (0)
#define V(value) std::printf("  %s = %lld\n", #value, static_cast<long long>(value))
#define TEXT(value) std::printf("  %s = %s\n", #value, value)

void TraceDevices();
void TraceMemory();
void TraceCopies();
void TraceArrays();
void TraceTextures();
void TraceStreams();
void TraceKernels();
void TraceLaunches();
void TraceGraphs();
void TraceGraphNodes();
void TracePools();
void TraceLibraries();
void TraceOdds();
void TraceReset();
