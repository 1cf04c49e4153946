// SPDX-License-Identifier: Apache-2.0
// Calls a driver function by its exported name and prints what it returned.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace trace {

inline void* Library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(4);
  }
  return library;
}

template <typename Function, typename... Args>
CUresult Call(const char* name, const char* note, Function function, Args... args) {
  if (function == nullptr) {
    std::printf("%s %s missing\n", name, note);
    return CUDA_ERROR_NOT_FOUND;
  }
  CUresult result = function(args...);
  std::printf("%s %s -> %d\n", name, note, static_cast<int>(result));
  std::fflush(stdout);
  return result;
}

}  // namespace trace

// T(note, function, arguments...): one line of the trace, "<function> <note> -> <code>".
#define T(note, fn, ...)                                                                   \
  trace::Call(#fn, note,                                                                   \
              reinterpret_cast<decltype(&fn)>(dlsym(trace::Library(), #fn)) __VA_OPT__(, ) \
                  __VA_ARGS__)
// V("name", format, value): a value both sides must agree on.
#define V(name, format, value) std::printf("  %s = " format "\n", name, value)

// The parts, one file each.
void TraceDevice();
void TraceContext();
void TraceMemory();
void TraceModule(const char* ptx);
void TraceStream();
void TraceLaunch(const char* ptx);
void TraceGraph(const char* ptx);
void TraceSettings();
void TraceBoxes();
void TracePools();
void TraceMulticast();
void TraceStreamMore();
void TraceDefaultStreams(const char* ptx);
void TraceGraphNodes(const char* ptx);
void TraceKernels(const char* ptx);
void TraceReset();
extern const char* const kPtx;
