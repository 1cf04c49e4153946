// SPDX-License-Identifier: Apache-2.0
// What the generated entries of cuDNN must know of the program's descriptors: the types and sizes
// that its setters gave.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <initializer_list>

#include "client-shim/thin/call.h"
#include "proto/library/cudnn_sizes.h"

namespace farcall::thin {

// Of alpha and beta in a call with these descriptors.
uint64_t ScalarBytes(std::initializer_list<const void*> descriptors);
// Of one element of a tensor; 0: its type is not known.
uint64_t ElementBytes(cudnnTensorDescriptor_t tensor);
uint64_t ElementBytes(cudnnRNNDataDescriptor_t data);
uint64_t ElementBytes(cudnnSeqDataDescriptor_t data);
// How long the sequences may be.
int SequenceSteps(const Call& call, cudnnSeqDataDescriptor_t data);
// 0: the tensor has no such dimension.
int TensorDim(const Call& call, cudnnTensorDescriptor_t tensor, int dimension);

}  // namespace farcall::thin
