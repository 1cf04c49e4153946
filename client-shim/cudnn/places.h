// SPDX-License-Identifier: Apache-2.0
// Where the weights of a network or an attention lie in its space, and what they are: cuDNN tells
// by filling a tensor descriptor and an address. Asked once, of any space of that size.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace farcall::thin {

struct Place {
  int64_t offset = -1;  // nothing is there
  cudnnDataType_t type{};
  int count = 0;  // of dimensions
  int dims[CUDNN_DIM_MAX] = {};
  int strides[CUDNN_DIM_MAX] = {};
};

// A matrix and its bias.
struct Places {
  Place matrix;
  Place bias;
};

// `key`: the question in this process; `print`: in any (thin/kept.h).
bool FindPlaces(const std::string& key, const std::string& print, Places* places);
void NotePlaces(std::string key, const std::string& print, const Places& places);

// A tensor of the server's alone, which a call there fills.
class FilledTensor {
 public:
  FilledTensor();
  ~FilledTensor();
  FilledTensor(const FilledTensor&) = delete;
  int status() const { return status_; }
  const void* get() const { return tensor_; }
  // What it was filled with. A status of the library's.
  int Read(Place* place) const;

 private:
  void* tensor_ = nullptr;
  int status_ = 0;
};

inline int64_t OffsetOf(const void* at, const void* space) {
  return at == nullptr ? -1
                       : static_cast<const std::byte*>(at) - static_cast<const std::byte*>(space);
}
inline void* AtOffset(const void* space, int64_t offset) {
  return offset < 0 ? nullptr : static_cast<std::byte*>(const_cast<void*>(space)) + offset;
}
// The program's descriptor becomes that; null: it wants none. A status of the library's.
int DescribeAs(const Place& place, cudnnTensorDescriptor_t tensor);

}  // namespace farcall::thin
