// SPDX-License-Identifier: Apache-2.0
// An image of the store as the driver takes it: the bytes as they are, or the units of a program of
// relocatable code behind a wrapper as nvcc writes it, so that the driver links them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda-abi/image.h"

namespace farcall::server {

// The containers in `image`, which came from a client: itself, or its units, each checked to be one
// and no longer than it says.
//   Errors  false with a reason in `error`
bool ContainersOf(const std::vector<std::byte>& image, std::vector<cuda_abi::Bytes>* containers,
                  std::string* error);

// Points into `containers`, and at itself: neither moves while the driver reads.
class LinkedImage {
 public:
  explicit LinkedImage(const std::vector<cuda_abi::Bytes>& containers);
  LinkedImage(const LinkedImage&) = delete;
  LinkedImage& operator=(const LinkedImage&) = delete;

  const void* data() const { return units_.empty() ? plain_ : &wrapper_; }

 private:
  // Version 2: beside the container of what is linked, a list of the units' own, ended by null.
  struct Wrapper {
    uint32_t magic = 0x466243B1;
    uint32_t version = 2;
    const void* linked = nullptr;
    const void* const* units = nullptr;
  };
  // What nvcc writes where no machine code was linked: a container's header, and nothing behind it.
  const uint64_t nothing_linked_[2] = {0x0010'0001'ba55'ed50, 0};
  const void* plain_ = nullptr;
  std::vector<const void*> units_;
  Wrapper wrapper_;
};

}  // namespace farcall::server
