// SPDX-License-Identifier: Apache-2.0
// What the programs here share: failures end them, a file carries the unique id from rank 0 to the
// others.
#pragma once

#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/nccl/nccl.h"

#define CHECK_CUDA(call)                                                 \
  do {                                                                   \
    if (cudaError_t result = (call); result != cudaSuccess) {            \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(result));                          \
      std::exit(1);                                                      \
    }                                                                    \
  } while (false)
#define CHECK_NCCL(call)                                                     \
  do {                                                                       \
    if (ncclResult_t result = (call); result != ncclSuccess) {               \
      std::fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, \
                   ncclGetErrorString(result), ncclGetLastError(nullptr));   \
      std::exit(1);                                                          \
    }                                                                        \
  } while (false)

inline ncclUniqueId Meet(int rank, const std::string& file) {
  ncclUniqueId id;
  if (rank == 0) {
    CHECK_NCCL(ncclGetUniqueId(&id));
    std::ofstream(file + ".new", std::ios::binary).write(id.internal, sizeof(id.internal));
    std::rename((file + ".new").c_str(), file.c_str());
    return id;
  }
  for (;; usleep(10000)) {
    std::ifstream in(file, std::ios::binary);
    if (in.read(id.internal, sizeof(id.internal))) return id;
  }
}
