// SPDX-License-Identifier: Apache-2.0
// Descriptors derived from others. Of a call that changes several each becomes the result of a
// setter of its own.
#include <cudnn.h>

#include "client-shim/thin/call.h"
#include "client-shim/thin/content.h"
#include "generated/proto/cudnn_call.h"
#include "proto/library/cudnn_folded.h"

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

using namespace farcall;
using namespace farcall::cudnn;

// Both are what batch normalisation derives.
CUDNN_ENTRY cudnnDeriveNormTensorDescriptor(cudnnTensorDescriptor_t derivedNormScaleBiasDesc,
                                            cudnnTensorDescriptor_t derivedNormMeanVarDesc,
                                            const cudnnTensorDescriptor_t xDesc,
                                            cudnnNormMode_t mode, int groupCnt) {
  if (groupCnt != 1) return CUDNN_STATUS_NOT_SUPPORTED;
  if (mode != CUDNN_NORM_PER_ACTIVATION && mode != CUDNN_NORM_PER_CHANNEL)
    return CUDNN_STATUS_BAD_PARAM;
  const cudnnBatchNormMode_t like =
      mode == CUDNN_NORM_PER_ACTIVATION ? CUDNN_BATCHNORM_PER_ACTIVATION : CUDNN_BATCHNORM_SPATIAL;
  cudnnStatus_t status = cudnnDeriveBNTensorDescriptor(derivedNormScaleBiasDesc, xDesc, like);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnDeriveBNTensorDescriptor(derivedNormMeanVarDesc, xDesc, like);
}

CUDNN_ENTRY cudnnInitTransformDest(const cudnnTensorTransformDescriptor_t transformDesc,
                                   const cudnnTensorDescriptor_t srcDesc,
                                   cudnnTensorDescriptor_t destDesc, size_t* destSizeInBytes) {
  thin::Call call(Function::cudnnInitTransformDest);
  call.Object(transformDesc, {kKind_cudnnTensorTransformDescriptor_t});
  call.Object(srcDesc, {kKind_cudnnTensorDescriptor_t});
  call.Target(destDesc, kKind_cudnnTensorDescriptor_t);
  call.Value<uint8_t>(1);  // room for the size, which any tensor tells
  auto status = static_cast<cudnnStatus_t>(call.Set());
  if (status != CUDNN_STATUS_SUCCESS || destSizeInBytes == nullptr) return status;
  return cudnnGetTensorSizeInBytes(destDesc, destSizeInBytes);
}

CUDNN_ENTRY cudnnGetFoldedConvBackwardDataDescriptors(
    const cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
    const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
    const cudnnTensorDescriptor_t gradDesc, const cudnnTensorFormat_t transformFormat,
    cudnnFilterDescriptor_t foldedFilterDesc, cudnnTensorDescriptor_t paddedDiffDesc,
    cudnnConvolutionDescriptor_t foldedConvDesc, cudnnTensorDescriptor_t foldedGradDesc,
    cudnnTensorTransformDescriptor_t filterFoldTransDesc,
    cudnnTensorTransformDescriptor_t diffPadTransDesc,
    cudnnTensorTransformDescriptor_t gradFoldTransDesc,
    cudnnTensorTransformDescriptor_t gradUnfoldTransDesc) {
  const void* const targets[kFoldedCount] = {
      foldedFilterDesc,    paddedDiffDesc,   foldedConvDesc,    foldedGradDesc,
      filterFoldTransDesc, diffPadTransDesc, gradFoldTransDesc, gradUnfoldTransDesc};
  for (int which = 0; which < kFoldedCount; ++which) {
    thin::Call call(Function::cudnnGetFoldedConvBackwardDataDescriptors);
    call.Object(handle, {kKind_cudnnHandle_t});
    call.Object(filterDesc, {kKind_cudnnFilterDescriptor_t});
    call.Object(diffDesc, {kKind_cudnnTensorDescriptor_t});
    call.Object(convDesc, {kKind_cudnnConvolutionDescriptor_t});
    call.Object(gradDesc, {kKind_cudnnTensorDescriptor_t});
    call.Target(targets[which], kFoldedKinds[which]);
    call.Value(transformFormat);
    call.Value(which);
    const int status = call.Set();
    if (status != 0) return static_cast<cudnnStatus_t>(status);
  }
  return CUDNN_STATUS_SUCCESS;
}
