// SPDX-License-Identifier: Apache-2.0
// What the generated decoders of cuDNN's calls ask of real descriptors.
#pragma once

#include <cudnn.h>

#include "generated/proto/cudnn_call.h"
#include "proto/library/cudnn_sizes.h"
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
      get(tensor, CUDNN_DIM_MAX, &type, &count, dims, strides) != CUDNN_STATUS_SUCCESS)
    return 0;
  return dimension < count ? dims[dimension] : 0;
}

// How long the sequences may be.
inline int SequenceSteps(LibraryCall& call, cudnnSeqDataDescriptor_t data) {
  auto get = call.Of<decltype(&::cudnnGetSeqDataDescriptor)>(
      static_cast<uint16_t>(cudnn::Function::cudnnGetSeqDataDescriptor));
  cudnnDataType_t type{};
  int count = 0, length = 0;
  int dims[CUDNN_SEQDATA_DIM_COUNT] = {};
  cudnnSeqDataAxis_t axes[CUDNN_SEQDATA_DIM_COUNT] = {};
  size_t lengths = 0;
  std::byte fill[thin::kCudnnMostElementBytes] = {};
  if (data == nullptr || get == nullptr ||
      get(data, &type, &count, CUDNN_SEQDATA_DIM_COUNT, dims, axes, &lengths, 1, &length, fill) !=
          CUDNN_STATUS_SUCCESS)
    return 0;
  return dims[CUDNN_SEQDATA_TIME_DIM];
}

}  // namespace farcall::server
