// SPDX-License-Identifier: Apache-2.0
// Getters of multi-head attention and of sequence data that name descriptors of the program's, or
// fill what only the library knows the size of.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client-shim/cudnn/places.h"
#include "client-shim/cudnn/types.h"
#include "client-shim/thin/content.h"
#include "client-shim/thin/kept.h"
#include "generated/proto/cudnn_call.h"

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

namespace client = farcall::client;
using namespace farcall::cudnn;
using namespace farcall::thin;

CUDNN_ENTRY cudnnGetMultiHeadAttnWeights(cudnnHandle_t handle, const cudnnAttnDescriptor_t attnDesc,
                                         cudnnMultiHeadAttnWeightKind_t wKind,
                                         size_t weightSizeInBytes, const void* weights,
                                         cudnnTensorDescriptor_t wDesc, void** wAddr) {
  if (wDesc == nullptr || wAddr == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const Described* attention = FindDescribed(attnDesc, kKind_cudnnAttnDescriptor_t);
  std::string rest, key;
  for (uint64_t part : {static_cast<uint64_t>(wKind), static_cast<uint64_t>(weightSizeInBytes),
                        uint64_t{weights == nullptr}})
    rest.append(reinterpret_cast<const char*>(&part), sizeof(part));
  const uint64_t number = attention == nullptr ? 0 : attention->object->id.load();
  key.assign(reinterpret_cast<const char*>(&number), sizeof(number)).append(rest);
  std::string print = attention == nullptr ? "" : PrintOf(*attention->content);
  if (!print.empty()) AppendPart(&print, rest);
  Places places;
  int status = 0;
  if (farcall::thin::Find(handle, kKind_cudnnHandle_t) == nullptr ||
      !FindPlaces(key, print, &places)) {
    FilledTensor tensor;
    if (tensor.status() != 0) return static_cast<cudnnStatus_t>(kLibrary.missing);
    void* at = nullptr;
    Call call(Function::cudnnGetMultiHeadAttnWeights);
    call.Object(handle, {kKind_cudnnHandle_t});
    call.Object(attnDesc, {kKind_cudnnAttnDescriptor_t}, true);
    call.Object(tensor.get(), {kKind_cudnnTensorDescriptor_t}, true);
    call.Value(wKind);
    call.Value(weightSizeInBytes);
    call.Device(weights);
    call.Out(&at, sizeof(at));
    status = call.AskAnywhere();
    if (status == 0) status = tensor.Read(&places.matrix);
    places.matrix.offset = OffsetOf(at, weights);
    if (status == 0) NotePlaces(std::move(key), print, places);
  }
  if (status == 0) status = DescribeAs(places.matrix, wDesc);
  if (status == 0) *wAddr = AtOffset(weights, places.matrix.offset);
  return static_cast<cudnnStatus_t>(status);
}

// As generated, but for the dropout descriptors, which are the program's own.
CUDNN_ENTRY cudnnGetAttnDescriptor(cudnnAttnDescriptor_t attnDesc, unsigned* attnMode, int* nHeads,
                                   double* smScaler, cudnnDataType_t* dataType,
                                   cudnnDataType_t* computePrec, cudnnMathType_t* mathType,
                                   cudnnDropoutDescriptor_t* attnDropoutDesc,
                                   cudnnDropoutDescriptor_t* postDropoutDesc, int* qSize,
                                   int* kSize, int* vSize, int* qProjSize, int* kProjSize,
                                   int* vProjSize, int* oProjSize, int* qoMaxSeqLength,
                                   int* kvMaxSeqLength, int* maxBatchSize, int* maxBeamSize) {
  cudnnDropoutDescriptor_t of_the_server[2] = {};
  Call call(Function::cudnnGetAttnDescriptor);
  call.Cached();
  call.Object(attnDesc, {kKind_cudnnAttnDescriptor_t}, true);
  call.Out(attnMode, sizeof(*attnMode));
  call.Out(nHeads, sizeof(*nHeads));
  call.Out(smScaler, sizeof(*smScaler));
  call.Out(dataType, sizeof(*dataType));
  call.Out(computePrec, sizeof(*computePrec));
  call.Out(mathType, sizeof(*mathType));
  call.Out(&of_the_server[0], sizeof(of_the_server[0]));
  call.Out(&of_the_server[1], sizeof(of_the_server[1]));
  for (int* out : {qSize, kSize, vSize, qProjSize, kProjSize, vProjSize, oProjSize, qoMaxSeqLength,
                   kvMaxSeqLength, maxBatchSize, maxBeamSize})
    call.Out(out, sizeof(*out));
  const int status = call.Question();
  const Described* described = FindDescribed(attnDesc, kKind_cudnnAttnDescriptor_t);
  if (status != 0 || described == nullptr) return static_cast<cudnnStatus_t>(status);
  auto named = described->named.begin();
  for (auto [server, out] : {std::pair{of_the_server[0], attnDropoutDesc},
                             std::pair{of_the_server[1], postDropoutDesc}}) {
    const bool has_one = server != nullptr && named != described->named.end();
    const void* own = has_one ? *named++ : nullptr;
    if (out != nullptr) *out = static_cast<cudnnDropoutDescriptor_t>(const_cast<void*>(own));
  }
  return CUDNN_STATUS_SUCCESS;
}

// The fill is one element of the data's type; of the lengths there are no more than were set.
CUDNN_ENTRY cudnnGetSeqDataDescriptor(const cudnnSeqDataDescriptor_t seqDataDesc,
                                      cudnnDataType_t* dataType, int* nbDims, int nbDimsRequested,
                                      int dimA[], cudnnSeqDataAxis_t axes[],
                                      size_t* seqLengthArraySize, size_t seqLengthSizeRequested,
                                      int seqLengthArray[], void* paddingFill) {
  std::byte fill[kCudnnMostElementBytes] = {};
  constexpr size_t kMaxLengths = 1u << 20;
  const size_t wanted = std::min(seqLengthSizeRequested, kMaxLengths);
  std::vector<int> lengths(seqLengthArray == nullptr ? 0 : wanted);
  size_t count = 0;
  Call call(Function::cudnnGetSeqDataDescriptor);
  call.Cached();
  call.Object(seqDataDesc, {kKind_cudnnSeqDataDescriptor_t}, true);
  call.Value(nbDimsRequested);
  call.Value(wanted);
  call.Out(dataType, sizeof(*dataType));
  call.Out(nbDims, sizeof(*nbDims));
  call.Out(dimA, Times(DimCount(nbDimsRequested), sizeof(int)));
  call.Out(axes, Times(DimCount(nbDimsRequested), sizeof(*axes)));
  call.Out(&count, sizeof(count));
  call.Out(seqLengthArray == nullptr ? nullptr : lengths.data(), Times(wanted, sizeof(int)));
  call.Out(paddingFill == nullptr ? nullptr : fill, sizeof(fill));
  const int status = call.Question();
  if (status != 0) return static_cast<cudnnStatus_t>(status);
  if (seqLengthArraySize != nullptr) *seqLengthArraySize = count;
  std::copy_n(lengths.begin(), std::min(count, lengths.size()), seqLengthArray);
  if (paddingFill != nullptr) std::memcpy(paddingFill, fill, ElementBytes(seqDataDesc));
  return CUDNN_STATUS_SUCCESS;
}
