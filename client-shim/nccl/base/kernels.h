// SPDX-License-Identifier: Apache-2.0
// The arithmetic of reductions, as PTX made for one type and operation when it is first asked for.
#pragma once

#include <cuda.h>

#include <map>
#include <string>
#include <utility>

#include "client-shim/nccl/base/api.h"

namespace farcall::nccl {

// Element by element: dst = a op b. kDivide takes b from the launch, kScale from device memory (one
// element).
enum class Arithmetic { kSum, kProd, kMax, kMin, kDivide, kScale };

// Bytes of an element; 0: no type of ours (the 8-bit floats among them).
size_t ElementBytes(ncclDataType_t type);

// The kernel's text, entry `reduce(u64 dst, u64 a, u64 b, u64 count)`; halves compute in f32 and
// round once.
std::string ReductionPtx(ncclDataType_t type, Arithmetic arithmetic);

// The kernels that one communicator has used, in its context.
class Kernels {
 public:
  Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels();

  bool Has(ncclDataType_t type, Arithmetic arithmetic) const {
    return loaded_.contains(KeyOf(type, arithmetic));
  }
  // Loads what Enqueue will need and Has not, ahead of every wait of the collective: a driver may
  // load a kernel only when the work of its context is done, and that would then wait for other
  // ranks, whose calls may stand behind the load. Waits for `stream`. `b`: as Enqueue's.
  ncclResult_t Prepare(CUstream stream, ncclDataType_t type, Arithmetic arithmetic, uint64_t b);
  // After Prepare. Enqueues dst = a op b for `count` elements. For kDivide `b` is the divisor, for
  // kScale the address of the factor.
  ncclResult_t Enqueue(CUstream stream, ncclDataType_t type, Arithmetic arithmetic, CUdeviceptr dst,
                       CUdeviceptr a, uint64_t b, uint64_t count);

 private:
  struct Loaded {
    CUmodule module;
    CUfunction function;
  };
  using Key = std::pair<int, int>;
  static Key KeyOf(ncclDataType_t type, Arithmetic arithmetic) {
    return {static_cast<int>(type), static_cast<int>(arithmetic)};
  }
  static ncclResult_t Launch(CUfunction function, CUstream stream, CUdeviceptr dst, CUdeviceptr a,
                             uint64_t b, uint64_t count);
  std::map<Key, Loaded> loaded_;
};

}  // namespace farcall::nccl
