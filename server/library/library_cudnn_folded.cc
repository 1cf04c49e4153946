// SPDX-License-Identifier: Apache-2.0
// cudnnGetFoldedConvBackwardDataDescriptors for one of the descriptors that it changes: the others
// are made for the call alone.
#include <cudnn.h>

#include "proto/library/cudnn_folded.h"
#include "server/library/library_call.h"

namespace farcall::server {

using cudnn::Function;

namespace {

using Descriptor = void*;  // each of cuDNN's is a pointer

struct Kind {
  cudnnStatus_t (*create)(Descriptor*);
  cudnnStatus_t (*destroy)(Descriptor);
};

Kind KindOf(LibraryCall& call, uint16_t kind) {
  Function create{}, destroy{};
  switch (kind) {
    case cudnn::kKind_cudnnFilterDescriptor_t:
      create = Function::cudnnCreateFilterDescriptor;
      destroy = Function::cudnnDestroyFilterDescriptor;
      break;
    case cudnn::kKind_cudnnConvolutionDescriptor_t:
      create = Function::cudnnCreateConvolutionDescriptor;
      destroy = Function::cudnnDestroyConvolutionDescriptor;
      break;
    case cudnn::kKind_cudnnTensorDescriptor_t:
      create = Function::cudnnCreateTensorDescriptor;
      destroy = Function::cudnnDestroyTensorDescriptor;
      break;
    default:
      create = Function::cudnnCreateTensorTransformDescriptor;
      destroy = Function::cudnnDestroyTensorTransformDescriptor;
  }
  return {call.Of<decltype(Kind::create)>(static_cast<uint16_t>(create)),
          call.Of<decltype(Kind::destroy)>(static_cast<uint16_t>(destroy))};
}

// Those that nobody asked for.
class Beside {
 public:
  ~Beside() {
    for (int i = 0; i < cudnn::kFoldedCount; ++i)
      if (made_[i] != nullptr) kinds_[i].destroy(made_[i]);
  }
  Descriptor Make(int which, const Kind& kind) {
    kinds_[which] = kind;
    return kind.create(&made_[which]) == CUDNN_STATUS_SUCCESS ? made_[which] : nullptr;
  }

 private:
  Descriptor made_[cudnn::kFoldedCount] = {};
  Kind kinds_[cudnn::kFoldedCount] = {};
};

template <typename T>
T As(Descriptor descriptor) {
  return static_cast<T>(descriptor);
}

}  // namespace

void Serve_cudnnGetFoldedConvBackwardDataDescriptors(LibraryCall& call) {
  auto handle = call.Object<cudnnHandle_t>({cudnn::kKind_cudnnHandle_t});
  auto filter = call.Object<cudnnFilterDescriptor_t>({cudnn::kKind_cudnnFilterDescriptor_t});
  auto diff = call.Object<cudnnTensorDescriptor_t>({cudnn::kKind_cudnnTensorDescriptor_t});
  auto convolution =
      call.Object<cudnnConvolutionDescriptor_t>({cudnn::kKind_cudnnConvolutionDescriptor_t});
  auto grad = call.Object<cudnnTensorDescriptor_t>({cudnn::kKind_cudnnTensorDescriptor_t});
  auto target = call.Object<Descriptor>(
      {cudnn::kKind_cudnnFilterDescriptor_t, cudnn::kKind_cudnnTensorDescriptor_t,
       cudnn::kKind_cudnnConvolutionDescriptor_t, cudnn::kKind_cudnnTensorTransformDescriptor_t});
  const LibraryObject* changed = call.last_object();
  auto format = call.Value<cudnnTensorFormat_t>();
  auto which = call.Value<int32_t>();
  auto real = call.Of<decltype(&::cudnnGetFoldedConvBackwardDataDescriptors)>(
      static_cast<uint16_t>(Function::cudnnGetFoldedConvBackwardDataDescriptors));
  Kind kinds[cudnn::kFoldedCount];
  for (int i = 0; i < cudnn::kFoldedCount; ++i) kinds[i] = KindOf(call, cudnn::kFoldedKinds[i]);
  if (!call.Ready()) return;
  if (which < 0 || which >= cudnn::kFoldedCount ||
      LibraryObjectKind(changed->wire) != cudnn::kFoldedKinds[which])
    return call.base().Reject("a folded convolution's descriptor of another kind");
  Beside beside;
  Descriptor to[cudnn::kFoldedCount];
  for (int i = 0; i < cudnn::kFoldedCount; ++i) {
    to[i] = i == which ? target : beside.Make(i, kinds[i]);
    if (to[i] == nullptr) {
      call.status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
      return;
    }
  }
  call.status =
      real(handle, filter, diff, convolution, grad, format, As<cudnnFilterDescriptor_t>(to[0]),
           As<cudnnTensorDescriptor_t>(to[1]), As<cudnnConvolutionDescriptor_t>(to[2]),
           As<cudnnTensorDescriptor_t>(to[3]), As<cudnnTensorTransformDescriptor_t>(to[4]),
           As<cudnnTensorTransformDescriptor_t>(to[5]), As<cudnnTensorTransformDescriptor_t>(to[6]),
           As<cudnnTensorTransformDescriptor_t>(to[7]));
}

}  // namespace farcall::server
