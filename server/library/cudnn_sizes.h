// SPDX-License-Identifier: Apache-2.0
// What the generated decoders of cuDNN's calls ask of real descriptors.
#pragma once

#include <cudnn.h>

#include "proto/cudnn_call.h"
#include "proto/cudnn_sizes.h"
#include "server/library/library_call.h"

namespace farcall::server {

// 0: the tensor has no such dimension.
inline int TensorDim(LibraryCall& call, cudnnTensorDescriptor_t tensor, int dimension) {
  auto get = call.Of<decltype(&::cudnnGetTensorNdDescriptor)>(
      static_cast<uint16_t>(cudnn::Function::cudnnGetTensorNdDescriptor));
  cudnnDataType_t type{};
  int count = 0;
  int dims[CUDNN_DIM_MAX] = {};
  int strides[CUDNN_DIM_MAX] = {};
  if (tensor == nullptr || get == nullptr ||
      get(tensor, CUDNN_DIM_MAX, &type, &count, dims, strides) != CUDNN_STATUS_SUCCESS) {
    return 0;
  }
  return dimension < count ? dims[dimension] : 0;
}

}  // namespace farcall::server
