// SPDX-License-Identifier: Apache-2.0
// Getters of recurrent networks that name descriptors of the program's, or fill them.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "client-shim/cudnn/places.h"
#include "client-shim/cudnn/types.h"
#include "client-shim/thin/content.h"
#include "client-shim/thin/kept.h"
#include "generated/proto/cudnn_call.h"

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

namespace client = farcall::client;
using namespace farcall::cudnn;
using namespace farcall::thin;

namespace {

constexpr uint32_t kMatrix = 1;
constexpr uint32_t kBias = 2;

// Of the question in any run: the network's number, which leads `key`, is of this one.
std::string PrintOfPlaces(cudnnRNNDescriptor_t network, const std::string& key) {
  const Described* described = FindDescribed(network, kKind_cudnnRNNDescriptor_t);
  std::string print = described == nullptr ? "" : PrintOf(*described->content);
  if (!print.empty()) AppendPart(&print, std::string_view(key).substr(sizeof(uint64_t)));
  return print;
}

int PlacesOf(cudnnHandle_t handle, cudnnRNNDescriptor_t network, int32_t layer, size_t bytes,
             const void* space, int32_t line, uint32_t wanted, Places* places) {
  const client::LibraryObject* object = farcall::thin::Find(network, kKind_cudnnRNNDescriptor_t);
  std::string key;
  for (uint64_t part : {object == nullptr ? 0 : object->id.load(), static_cast<uint64_t>(layer),
                        static_cast<uint64_t>(bytes), static_cast<uint64_t>(line),
                        static_cast<uint64_t>(wanted), uint64_t{space == nullptr}})
    key.append(reinterpret_cast<const char*>(&part), sizeof(part));
  const std::string print = PrintOfPlaces(network, key);
  if (farcall::thin::Find(handle, kKind_cudnnHandle_t) != nullptr && FindPlaces(key, print, places))
    return 0;
  FilledTensor matrix, bias;
  if (matrix.status() != 0 || bias.status() != 0) return kLibrary.missing;
  void* matrix_at = nullptr;
  void* bias_at = nullptr;
  const bool has_matrix = (wanted & kMatrix) != 0, has_bias = (wanted & kBias) != 0;
  Call call(Function::cudnnGetRNNWeightParams);
  call.Object(handle, {kKind_cudnnHandle_t});
  call.Object(network, {kKind_cudnnRNNDescriptor_t}, true);
  call.Object(has_matrix ? matrix.get() : nullptr, {kKind_cudnnTensorDescriptor_t}, true);
  call.Object(has_bias ? bias.get() : nullptr, {kKind_cudnnTensorDescriptor_t}, true);
  call.Value(layer);
  call.Value(bytes);
  call.Value(line);
  call.Device(space);
  call.Out(has_matrix ? &matrix_at : nullptr, sizeof(matrix_at));
  call.Out(has_bias ? &bias_at : nullptr, sizeof(bias_at));
  int status = call.AskAnywhere();
  if (status == 0 && has_matrix) status = matrix.Read(&places->matrix);
  if (status == 0 && has_bias) status = bias.Read(&places->bias);
  places->matrix.offset = OffsetOf(matrix_at, space);
  places->bias.offset = OffsetOf(bias_at, space);
  if (status == 0) NotePlaces(std::move(key), print, *places);
  return status;
}

}  // namespace

CUDNN_ENTRY cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                    int32_t pseudoLayer, size_t weightSpaceSize,
                                    const void* weightSpace, int32_t linLayerID,
                                    cudnnTensorDescriptor_t mDesc, void** mAddr,
                                    cudnnTensorDescriptor_t bDesc, void** bAddr) {
  if ((mAddr == nullptr) != (mDesc == nullptr) || (bAddr == nullptr) != (bDesc == nullptr))
    return CUDNN_STATUS_BAD_PARAM;
  uint32_t wanted = (mDesc == nullptr ? 0u : kMatrix) | (bDesc == nullptr ? 0u : kBias);
  Places places;
  int status = PlacesOf(handle, rnnDesc, pseudoLayer, weightSpaceSize, weightSpace, linLayerID,
                        wanted, &places);
  if (status == 0) status = DescribeAs(places.matrix, mDesc);
  if (status == 0) status = DescribeAs(places.bias, bDesc);
  if (status != 0) return static_cast<cudnnStatus_t>(status);
  if (mAddr != nullptr) *mAddr = AtOffset(weightSpace, places.matrix.offset);
  if (bAddr != nullptr) *bAddr = AtOffset(weightSpace, places.bias.offset);
  return CUDNN_STATUS_SUCCESS;
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
  if (status == 0 && dropoutDesc != nullptr && described != nullptr && !described->named.empty()) {
    *dropoutDesc =
        static_cast<cudnnDropoutDescriptor_t>(const_cast<void*>(described->named.front()));
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
