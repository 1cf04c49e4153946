// SPDX-License-Identifier: Apache-2.0
// The copies' engine: inline bytes, bulk pieces, landing places. Streams here are wire values.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace farcall::client {

inline constexpr uint64_t kCopyPieceBytes = 4u << 20;

// How the application enqueued an upload.
enum class Upload {
  kSync,     // returns when the source has been read
  kSettled,  // what comes behind it finds the bytes on the device, whatever its stream
  kAsync,    // page-locked memory may be read later, in the stream's order
  kLater,    // any memory may: a graph reads when it runs
};

// A synchronous upload is over for the device, too, when a stream that does not wait for the
// default one may use the data, or another process.
bool OthersLookAtUploads();
// A barrier on the stream: the log goes on behind it once the stream's work is complete. No wait.
CUresult PostBarrier(uint64_t stream);

CUresult CopyToDevice(CUdeviceptr dst, const void* src, size_t bytes, uint64_t stream,
                      Upload upload);

// The source of an upload may still change before the stream gets there: by a copy that has yet to
// land in it, or by a host function.
bool MayStillChange(const void* src, size_t bytes);
// The stream's earlier work has completed, and what it wrote to host memory is there.
CUresult AwaitStream(uint64_t stream);
// A copy that the device has been told of: waits for it where CUDA's synchronous calls do (`sync`:
// into memory that the host reads, from mapped memory), and where its asynchronous ones do (from
// host memory to host memory).
//   Source  CUDA Runtime API 13.0, API synchronization behavior, Memcpy
CUresult AwaitCopy(CUresult posted, CUdeviceptr dst, CUdeviceptr src, uint64_t stream, bool sync);
// Ahead of a synchronous upload, of which CUDA says that "a stream sync is performed before the
// copy is initiated": waits only if earlier work may write where the host looks.
CUresult AwaitWhatTheHostSees(uint64_t stream);
// An address that is kept for devices and of no allocation: no host memory, and touched here it
// would end the process.
bool IsVacant(const void* address);
// `wait`: returns when the bytes have landed; else they land before any later completion is
// reported.
CUresult CopyToHost(void* dst, CUdeviceptr src, size_t bytes, uint64_t stream, bool wait);
CUresult CopyOnDevice(CUdeviceptr dst, CUdeviceptr src, size_t bytes, uint64_t stream);
// Host to host, in the stream's order.
CUresult CopyOnHost(void* dst, const void* src, size_t bytes, uint64_t stream);

}  // namespace farcall::client
