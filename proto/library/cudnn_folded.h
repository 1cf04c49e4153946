// SPDX-License-Identifier: Apache-2.0
// What cudnnGetFoldedConvBackwardDataDescriptors makes: on the wire {handle, filter, diff,
// convolution, grad, target, i32 format, i32 which}, once for each of its targets.
#pragma once

#include "generated/proto/cudnn_call.h"

namespace farcall::cudnn {

inline constexpr int kFoldedCount = 8;
// In the order of the parameters.
inline constexpr uint16_t kFoldedKinds[kFoldedCount] = {
    kKind_cudnnFilterDescriptor_t,          kKind_cudnnTensorDescriptor_t,
    kKind_cudnnConvolutionDescriptor_t,     kKind_cudnnTensorDescriptor_t,
    kKind_cudnnTensorTransformDescriptor_t, kKind_cudnnTensorTransformDescriptor_t,
    kKind_cudnnTensorTransformDescriptor_t, kKind_cudnnTensorTransformDescriptor_t};

}  // namespace farcall::cudnn
