// SPDX-License-Identifier: Apache-2.0
// How our libcudart asks the libcuda.so.1 beside it for CUDA's data: a table that cuGetExportTable
// hands out under this id. Both are of one build; the size tells.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::client {

inline constexpr uint8_t kCudaDataId[16] = {0x5c, 0x0a, 0x91, 0xe4, 0x2b, 0x77, 0x4d, 0x3e,
                                            0xb6, 0x18, 0xf0, 0x63, 0xc9, 0x2d, 0x84, 0x51};

struct CudaDataTable {
  size_t bytes;
  // The folder in the user's cache that stands for CUDA's data. Null: switched off, or it cannot be
  // written (said). Nothing is begun.
  const char* (*folder)();
  // Puts the server's nvvm/libdevice there, unless it is: waits for the server. CUDA has begun.
  void (*fill)();
  // One line into the shim's log, at level info.
  void (*tell)(const char* line);
};

const CudaDataTable* TheCudaDataTable();

}  // namespace farcall::client
