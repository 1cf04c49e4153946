// SPDX-License-Identifier: Apache-2.0
// Large copies of ordinary host memory over shm://: piece by piece through memory that the worker
// maps as well, which the device reads and writes itself. Program and device copy at the same time.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace farcall::client {

// True: it was sent and `src` has been read, or *status says what failed. False: nothing was sent,
// and the bytes have to go over the lanes (another transport, another thread's copy, a stream that
// has yet to finish with the memory).
//   `stream`  a wire value
bool UploadStaged(CUdeviceptr dst, const std::byte* src, uint64_t bytes, uint64_t stream,
                  CUresult* status);
// The same the other way round; returns when the bytes are there.
bool DownloadStaged(std::byte* dst, CUdeviceptr src, uint64_t bytes, uint64_t stream,
                    CUresult* status);

}  // namespace farcall::client
