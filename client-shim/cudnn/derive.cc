// SPDX-License-Identifier: Apache-2.0
// The descriptors of a normalisation: both are what batch normalisation derives.
#include <cudnn.h>

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

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
