// SPDX-License-Identifier: Apache-2.0
// Read back from the setters' records (docs/reference/thin.md): the header, the target, the values
// in order, then arrays as a length and their bytes.
#include "client-shim/cudnn/types.h"

#include <algorithm>
#include <cstring>

#include "client-shim/thin/content.h"
#include "generated/proto/cudnn_call.h"

namespace farcall::thin {

namespace {

using cudnn::Function;

// One setter's record after its target; what is not there reads as 0.
class Fields {
 public:
  explicit Fields(const Step& step) : step_(step) {}
  int Int(size_t index) const {
    int32_t value = 0;
    size_t at = step_.target_at + 8 + 4 * index;
    if (at + sizeof(value) <= step_.record.size())
      std::memcpy(&value, step_.record.data() + at, sizeof(value));
    return value;
  }

 private:
  const Step& step_;
};

struct Shape {
  int type = -1;
  int count = 0;
  int dims[8] = {};
};

Shape ShapeOf(const Content& content);

// values: dataType, nbDims, then the array's length (8 bytes) and its elements.
Shape FromArray(const Fields& fields, size_t type, size_t count) {
  Shape shape{fields.Int(type), fields.Int(count)};
  if (shape.count < 0 || shape.count > 8) shape.count = 0;
  size_t first = (std::max(type, count) + 2) / 2 * 2 + 2;
  for (int i = 0; i < shape.count; ++i) shape.dims[i] = fields.Int(first + static_cast<size_t>(i));
  return shape;
}

Shape FromFour(const Fields& fields, size_t type, size_t first) {
  Shape shape{fields.Int(type), 4};
  for (size_t i = 0; i < 4; ++i) shape.dims[i] = fields.Int(first + i);
  return shape;
}

Shape FromStep(const Step& step) {
  Fields fields(step);
  switch (static_cast<Function>(step.function)) {
    case Function::cudnnSetTensor4dDescriptor:
      return FromFour(fields, 1, 2);
    case Function::cudnnSetTensor4dDescriptorEx:
      return FromFour(fields, 0, 1);
    case Function::cudnnSetTensorNdDescriptor:
      return FromArray(fields, 0, 1);
    case Function::cudnnSetTensorNdDescriptorEx:
      return FromArray(fields, 1, 2);
    case Function::cudnnSetFilter4dDescriptor:
    case Function::cudnnSetFilterNdDescriptor:
    case Function::cudnnSetRNNDataDescriptor:
      return {fields.Int(0)};
    // After the values, the last of 8 bytes, comes the dimensions' length.
    case Function::cudnnSetSeqDataDescriptor:
      return FromFour(fields, 0, 6);
    // A tensor of the scale's type, which is float where the data's is smaller.
    case Function::cudnnDeriveBNTensorDescriptor: {
      if (step.named.empty()) return {};
      Shape from = ShapeOf(*step.named.front());
      from.type = from.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
      return from;
    }
    default:
      return {};
  }
}

Shape ShapeOf(const Content& content) {
  for (auto step = content.steps.rbegin(); step != content.steps.rend(); ++step) {
    Shape shape = FromStep(*step);
    if (shape.type >= 0) return shape;
  }
  return {};
}

const Content* ContentOf(const void* descriptor) {
  if (descriptor == nullptr || FindChannel() == nullptr) return nullptr;
  client::LibraryObject* object = Channel().find_object(descriptor);
  auto* state = object == nullptr ? nullptr : static_cast<State*>(object->state);
  if (state == nullptr || state->is_handle) return nullptr;
  return static_cast<Described*>(state)->content.get();
}

Shape ShapeOf(const void* descriptor) {
  const Content* content = ContentOf(descriptor);
  return content == nullptr ? Shape() : ShapeOf(*content);
}

// Asked at every computing call: read from the steps once.
int TypeOf(const void* descriptor) {
  const Content* content = ContentOf(descriptor);
  if (content == nullptr) return -1;
  uint32_t noted = content->note.load(std::memory_order_relaxed);
  if (noted == 0) [[unlikely]] {
    noted = static_cast<uint32_t>(ShapeOf(*content).type) + 2;
    content->note.store(noted, std::memory_order_relaxed);
  }
  return static_cast<int>(noted - 2);
}

}  // namespace

uint64_t ScalarBytes(std::initializer_list<const void*> descriptors) {
  uint64_t bytes = sizeof(float);
  for (const void* descriptor : descriptors) {
    int type = TypeOf(descriptor);
    bool wide = type == CUDNN_DATA_DOUBLE || type >= CUDNN_DATA_UINT32 + 1;
    if (wide) bytes = std::max(bytes, CudnnTypeBytes(type));
  }
  return bytes;
}

uint64_t ElementBytes(cudnnTensorDescriptor_t tensor) {
  return CudnnTypeBytes(ShapeOf(tensor).type);
}
uint64_t ElementBytes(cudnnRNNDataDescriptor_t data) {
  return CudnnTypeBytes(ShapeOf(data).type);
}

uint64_t ElementBytes(cudnnSeqDataDescriptor_t data) {
  return CudnnTypeBytes(ShapeOf(data).type);
}
int SequenceSteps(const Call&, cudnnSeqDataDescriptor_t data) {
  return ShapeOf(data).dims[CUDNN_SEQDATA_TIME_DIM];
}

int TensorDim(const Call&, cudnnTensorDescriptor_t tensor, int dimension) {
  Shape shape = ShapeOf(tensor);
  return dimension < shape.count ? shape.dims[dimension] : 0;
}

}  // namespace farcall::thin
