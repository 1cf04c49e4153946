// SPDX-License-Identifier: Apache-2.0
// How a program of these tests gives up: one line that names the place.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                               \
  do {                                                                            \
    cudaError_t check = (call);                                                   \
    if (check != cudaSuccess) {                                                   \
      std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(check)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)
#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      std::printf("line %d: not %s\n", __LINE__, #condition); \
      std::exit(1);                                           \
    }                                                         \
  } while (0)
