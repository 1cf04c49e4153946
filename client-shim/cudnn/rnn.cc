// SPDX-License-Identifier: Apache-2.0
// Getters of recurrent networks that name descriptors of the program's, or fill them.
#include <cudnn.h>

#include <algorithm>
#include <cstring>

#include "client-shim/cudnn/types.h"
#include "client-shim/thin/content.h"
#include "proto/cudnn_call.h"

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

using namespace farcall::cudnn;
using namespace farcall::thin;

namespace {

// A tensor of the server's alone, which a call there fills.
class FilledTensor {
 public:
  FilledTensor() {
    Call call(Function::cudnnCreateTensorDescriptor);
    call.New(&tensor_, kKind_cudnnTensorDescriptor_t);
    status_ = call.Run();
  }
  ~FilledTensor() {
    if (tensor_ == nullptr) return;
    Call call(Function::cudnnDestroyTensorDescriptor);
    call.Object(tensor_, {kKind_cudnnTensorDescriptor_t});
    call.End(tensor_);
    call.Run();
  }
  FilledTensor(const FilledTensor&) = delete;
  int status() const { return status_; }
  const void* get() const { return tensor_; }
  // The program's descriptor becomes what this one is.
  int CopyTo(cudnnTensorDescriptor_t to) const {
    cudnnDataType_t type{};
    int count = 0;
    int dims[CUDNN_DIM_MAX] = {};
    int strides[CUDNN_DIM_MAX] = {};
    int status = cudnnGetTensorNdDescriptor(static_cast<cudnnTensorDescriptor_t>(tensor_),
                                            CUDNN_DIM_MAX, &type, &count, dims, strides);
    if (status != 0) return status;
    if (count == 0) {  // there are no such weights
      Described* described = FindDescribed(to, kKind_cudnnTensorDescriptor_t);
      return described == nullptr ? CUDNN_STATUS_BAD_PARAM : ResetDescribed(described);
    }
    return cudnnSetTensorNdDescriptor(to, type, count, dims, strides);
  }

 private:
  void* tensor_ = nullptr;
  int status_ = 0;
};

}  // namespace

// Weights lie where the library says in the space: the same for every space of that size, so the
// answer to one is kept as an offset.
CUDNN_ENTRY cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                    int32_t pseudoLayer, size_t weightSpaceSize,
                                    const void* weightSpace, int32_t linLayerID,
                                    cudnnTensorDescriptor_t mDesc, void** mAddr,
                                    cudnnTensorDescriptor_t bDesc, void** bAddr) {
  FilledTensor matrix, bias;
  if (matrix.status() != 0 || bias.status() != 0)
    return static_cast<cudnnStatus_t>(std::max(matrix.status(), bias.status()));
  Call call(Function::cudnnGetRNNWeightParams);
  call.Object(handle, {kKind_cudnnHandle_t});
  call.Object(rnnDesc, {kKind_cudnnRNNDescriptor_t}, true);
  call.Object(mDesc == nullptr ? nullptr : matrix.get(), {kKind_cudnnTensorDescriptor_t}, true);
  call.Object(bDesc == nullptr ? nullptr : bias.get(), {kKind_cudnnTensorDescriptor_t}, true);
  call.Value(pseudoLayer);
  call.Value(weightSpaceSize);
  call.Value(linLayerID);
  call.Device(weightSpace);
  call.Out(mAddr, sizeof(*mAddr));
  call.Out(bAddr, sizeof(*bAddr));
  int status = call.AskAnywhere();
  if (status == 0 && mDesc != nullptr) status = matrix.CopyTo(mDesc);
  if (status == 0 && bDesc != nullptr) status = bias.CopyTo(bDesc);
  return static_cast<cudnnStatus_t>(status);
}

// As generated, but for the dropout descriptor, which is the program's own.
CUDNN_ENTRY cudnnGetRNNDescriptor_v8(cudnnRNNDescriptor_t rnnDesc, cudnnRNNAlgo_t* algo,
                                     cudnnRNNMode_t* cellMode, cudnnRNNBiasMode_t* biasMode,
                                     cudnnDirectionMode_t* dirMode, cudnnRNNInputMode_t* inputMode,
                                     cudnnDataType_t* dataType, cudnnDataType_t* mathPrec,
                                     cudnnMathType_t* mathType, int32_t* inputSize,
                                     int32_t* hiddenSize, int32_t* projSize, int32_t* numLayers,
                                     cudnnDropoutDescriptor_t* dropoutDesc, uint32_t* auxFlags) {
  cudnnDropoutDescriptor_t of_the_server = nullptr;
  Call call(Function::cudnnGetRNNDescriptor_v8);
  call.Cached();
  call.Object(rnnDesc, {kKind_cudnnRNNDescriptor_t}, true);
  call.Out(algo, sizeof(*algo));
  call.Out(cellMode, sizeof(*cellMode));
  call.Out(biasMode, sizeof(*biasMode));
  call.Out(dirMode, sizeof(*dirMode));
  call.Out(inputMode, sizeof(*inputMode));
  call.Out(dataType, sizeof(*dataType));
  call.Out(mathPrec, sizeof(*mathPrec));
  call.Out(mathType, sizeof(*mathType));
  call.Out(inputSize, sizeof(*inputSize));
  call.Out(hiddenSize, sizeof(*hiddenSize));
  call.Out(projSize, sizeof(*projSize));
  call.Out(numLayers, sizeof(*numLayers));
  call.Out(dropoutDesc == nullptr ? nullptr : &of_the_server, sizeof(of_the_server));
  call.Out(auxFlags, sizeof(*auxFlags));
  int status = call.Question();
  const Described* described = FindDescribed(rnnDesc, kKind_cudnnRNNDescriptor_t);
  if (status == 0 && dropoutDesc != nullptr && described != nullptr) {
    *dropoutDesc = static_cast<cudnnDropoutDescriptor_t>(const_cast<void*>(described->named));
  }
  return static_cast<cudnnStatus_t>(status);
}

// The fill is one element of the data's type.
CUDNN_ENTRY cudnnGetRNNDataDescriptor(cudnnRNNDataDescriptor_t rnnDataDesc,
                                      cudnnDataType_t* dataType, cudnnRNNDataLayout_t* layout,
                                      int* maxSeqLength, int* batchSize, int* vectorSize,
                                      int arrayLengthRequested, int seqLengthArray[],
                                      void* paddingFill) {
  std::byte fill[kCudnnMostElementBytes] = {};
  Call call(Function::cudnnGetRNNDataDescriptor);
  call.Cached();
  call.Object(rnnDataDesc, {kKind_cudnnRNNDataDescriptor_t}, true);
  call.Value(arrayLengthRequested);
  call.Out(dataType, sizeof(*dataType));
  call.Out(layout, sizeof(*layout));
  call.Out(maxSeqLength, sizeof(*maxSeqLength));
  call.Out(batchSize, sizeof(*batchSize));
  call.Out(vectorSize, sizeof(*vectorSize));
  call.Out(seqLengthArray, Times(CountOf(arrayLengthRequested), sizeof(int)));
  call.Out(paddingFill == nullptr ? nullptr : fill, sizeof(fill));
  int status = call.Question();
  if (status == 0 && paddingFill != nullptr)
    std::memcpy(paddingFill, fill, ElementBytes(rnnDataDesc));
  return static_cast<cudnnStatus_t>(status);
}
