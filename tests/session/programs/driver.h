// SPDX-License-Identifier: Apache-2.0
// Functions of the driver API by name, for programs that nvcc links to no libcuda.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

inline void* DriverFunction(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::printf("no %s\n", name);
    std::exit(1);
  }
  return found;
}

#define CU_QUOTE(name) #name
#define CU_NAME(name) CU_QUOTE(name)
// The API's function of this name, as cuda.h declares it.
#define CU(name) reinterpret_cast<decltype(&name)>(DriverFunction(CU_NAME(name)))
#define CU_CHECK(call)                                               \
  do {                                                               \
    CUresult check = (call);                                         \
    if (check != CUDA_SUCCESS) {                                     \
      std::printf("line %d: %s: %d\n", __LINE__, #call, int(check)); \
      std::exit(1);                                                  \
    }                                                                \
  } while (0)
#define CU_FAILS(code, call)                                                        \
  do {                                                                              \
    CUresult check = (call);                                                        \
    if (check != (code)) {                                                          \
      std::printf("line %d: %s: %d, not %s\n", __LINE__, #call, int(check), #code); \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)
