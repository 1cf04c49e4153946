// SPDX-License-Identifier: Apache-2.0
// Getters of recurrent networks that name descriptors of the program's, or fill them.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "client-shim/cudnn/types.h"
#include "client-shim/thin/content.h"
#include "proto/cudnn_call.h"

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

namespace client = farcall::client;
using namespace farcall::cudnn;
using namespace farcall::thin;

namespace {

// Where a network's matrix and bias lie in its space, and what they are.
struct Weights {
  struct Tensor {
    int64_t offset = -1;  // there are none
    cudnnDataType_t type{};
    int count = 0;  // of dimensions
    int dims[CUDNN_DIM_MAX] = {};
    int strides[CUDNN_DIM_MAX] = {};
  };
  Tensor matrix;
  Tensor bias;
};

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
  int Describe(Weights::Tensor* is) const {
    Call call(Function::cudnnGetTensorNdDescriptor);
    call.Object(tensor_, {kKind_cudnnTensorDescriptor_t});
    call.Value(int{CUDNN_DIM_MAX});
    call.Out(&is->type, sizeof(is->type));
    call.Out(&is->count, sizeof(is->count));
    call.Out(is->dims, sizeof(is->dims));
    call.Out(is->strides, sizeof(is->strides));
    return call.AskAnywhere();
  }

 private:
  void* tensor_ = nullptr;
  int status_ = 0;
};

struct Places {
  std::mutex mutex;
  std::map<std::string, Weights> by_question;
};
constexpr size_t kMostPlaces = 1u << 15;
constexpr uint32_t kMatrix = 1;
constexpr uint32_t kBias = 2;

int64_t OffsetOf(const void* at, const void* space) {
  return at == nullptr ? -1
                       : static_cast<const std::byte*>(at) - static_cast<const std::byte*>(space);
}

Places& ThePlaces() {
  static auto* places = new Places;
  return *places;
}

// The same for every space of that size, and asked once.
int WeightsOf(cudnnHandle_t handle, cudnnRNNDescriptor_t network, int32_t layer, size_t bytes,
              const void* space, int32_t line, uint32_t wanted, Weights* weights) {
  const client::LibraryObject* object = farcall::thin::Find(network, kKind_cudnnRNNDescriptor_t);
  std::string key;
  for (uint64_t part : {object == nullptr ? 0 : object->id.load(), static_cast<uint64_t>(layer),
                        static_cast<uint64_t>(bytes), static_cast<uint64_t>(line),
                        static_cast<uint64_t>(wanted), uint64_t{space == nullptr}})
    key.append(reinterpret_cast<const char*>(&part), sizeof(part));
  Places& places = ThePlaces();
  if (farcall::thin::Find(handle, kKind_cudnnHandle_t) != nullptr) {
    std::lock_guard lock(places.mutex);
    auto found = places.by_question.find(key);
    if (found != places.by_question.end()) {
      *weights = found->second;
      return 0;
    }
  }
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
  if (status == 0 && has_matrix) status = matrix.Describe(&weights->matrix);
  if (status == 0 && has_bias) status = bias.Describe(&weights->bias);
  weights->matrix.offset = OffsetOf(matrix_at, space);
  weights->bias.offset = OffsetOf(bias_at, space);
  std::lock_guard lock(places.mutex);
  if (status == 0 && places.by_question.size() < kMostPlaces)
    places.by_question.emplace(std::move(key), *weights);
  return status;
}

// The program's descriptor becomes that.
int Describe(const Weights::Tensor& is, cudnnTensorDescriptor_t tensor) {
  if (tensor == nullptr) return 0;
  if (is.count != 0)
    return cudnnSetTensorNdDescriptor(tensor, is.type, is.count, is.dims, is.strides);
  Described* described = FindDescribed(tensor, kKind_cudnnTensorDescriptor_t);
  return described == nullptr ? CUDNN_STATUS_BAD_PARAM : ResetDescribed(described);
}

void* AtOffset(const void* space, int64_t offset) {
  return offset < 0 ? nullptr : static_cast<std::byte*>(const_cast<void*>(space)) + offset;
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
  Weights weights{};
  int status = WeightsOf(handle, rnnDesc, pseudoLayer, weightSpaceSize, weightSpace, linLayerID,
                         wanted, &weights);
  if (status == 0) status = Describe(weights.matrix, mDesc);
  if (status == 0) status = Describe(weights.bias, bDesc);
  if (status != 0) return static_cast<cudnnStatus_t>(status);
  if (mAddr != nullptr) *mAddr = AtOffset(weightSpace, weights.matrix.offset);
  if (bAddr != nullptr) *bAddr = AtOffset(weightSpace, weights.bias.offset);
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
