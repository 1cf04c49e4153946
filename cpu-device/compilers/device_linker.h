// SPDX-License-Identifier: Apache-2.0
// The linker of the libcuda.so.1 in this process, called as a program calls it.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <string>

namespace farcall::cpu_device {

//   Thread  one at a time
class DeviceLinker {
 public:
  ~DeviceLinker();

  // False: error() says why.
  bool Add(CUjitInputType type, const void* data, size_t bytes);
  bool Complete();

  // The image, as long as it is; empty before Complete, and if that failed.
  const std::string& linked() const { return linked_; }
  const std::string& error() const { return error_; }

 private:
  bool Begin();
  bool Fail(const char* call, CUresult result);

  CUlinkState state_ = nullptr;
  char log_[1024] = {};
  // The driver writes the length of the log here, until the state is destroyed.
  void* values_[2] = {log_, reinterpret_cast<void*>(sizeof(log_))};
  std::string linked_, error_;
};

}  // namespace farcall::cpu_device
