// SPDX-License-Identifier: Apache-2.0
// Calls of libcuda by their exported names, old versions too, and how a subject gives up: one line
// that names the place.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

inline void* Library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library;
}

template <typename Function>
Function* Find(Function*, const char* name) {
  void* found = Library() == nullptr ? nullptr : dlsym(Library(), name);
  if (found == nullptr) {
    std::printf("no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

// D(cuName)(arguments...)
#define D(name) (*Find(static_cast<decltype(&name)>(nullptr), #name))

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      std::printf("%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)
#define CODE(expected, call)                                                \
  do {                                                                      \
    CUresult code = (call);                                                 \
    if (code != (expected)) {                                               \
      std::printf("%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, \
                  static_cast<int>(code), #expected);                       \
      std::exit(1);                                                         \
    }                                                                       \
  } while (0)
#define CHECK(call) CODE(CUDA_SUCCESS, call)

// Adds `value` to each of `count` numbers, and `helper`, which adds one, lives elsewhere.
extern const char* const kAddPtx;
extern const char* const kCallerPtx;
extern const char* const kHelperPtx;

// The subjects. A context is current.
void Legacy();
void Linking();
void Green();
void Tools();
void Odds();
void MemorySubject();
void MulticastSubject();
void ArraysSubject();
void Room();
void Exhaustion();
void TexturesSubject();
