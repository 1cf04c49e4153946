// SPDX-License-Identifier: Apache-2.0
// What the C entries share: an application's handle of a communicator, and how it is looked up.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "client-shim/nccl/collectives.h"
#include "client-shim/nccl/communicator.h"

#define FARCALL_NCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace farcall::nccl {

// A primary context that is retained as long as this stands.
class HeldContext {
 public:
  HeldContext() = default;
  ~HeldContext();
  HeldContext(const HeldContext&) = delete;
  HeldContext& operator=(const HeldContext&) = delete;
  // Takes over a retained one.
  void Hold(int device) { device_ = device; }

 private:
  int device_ = -1;
};

}  // namespace farcall::nccl

// What an application holds: a communicator, and the reductions made for it.
struct ncclComm {
  farcall::nccl::HeldContext held;  // goes after the communicator that lives in it
  std::unique_ptr<farcall::nccl::Communicator> communicator;
  std::mutex mutex;
  std::map<int, farcall::nccl::Reduction> reductions;
  int next_reduction = 5;  // behind those that the interface names
};

namespace farcall::nccl {

inline CUdeviceptr Device(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

// Null, with LastError() set: no such communicator, or one whose group has not ended.
Communicator* Find(ncclComm_t comm);

}  // namespace farcall::nccl
