// SPDX-License-Identifier: Apache-2.0
// Tensors and convolutions of the backend API come in every shape that a program has. Once the
// library took one, another is taken that differs in ordinary sizes alone: it is posted.
#include <algorithm>
#include <cstring>

#include "client-shim/cudnn/backend.h"

namespace farcall::thin {

namespace {

constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 31;

std::vector<int64_t> Numbers(const BackendStep& step) {
  std::vector<int64_t> numbers(step.bytes.size() / sizeof(int64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), step.bytes.data(), numbers.size() * sizeof(int64_t));
  return numbers;
}

bool AllWithin(const std::vector<int64_t>& numbers, int64_t least, int64_t most) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](int64_t number) { return number >= least && number <= most; });
}

// No two elements share a place, and there are not too many.
bool IsOrdinary(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  if (dims.empty() || dims.size() != strides.size()) return false;
  if (!AllWithin(dims, 1, kMaxSize) || !AllWithin(strides, 1, kMaxElements)) return false;
  std::vector<std::pair<int64_t, int64_t>> by_stride;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] > 1) by_stride.emplace_back(strides[i], dims[i]);
  std::sort(by_stride.begin(), by_stride.end());
  int64_t span = 1;
  for (auto [stride, dim] : by_stride) {
    if (stride < span || stride > kMaxElements / dim) return false;
    span = stride * dim;
  }
  return true;
}

// Whether the step's values are sizes, left out of the kind.
bool IsSize(int32_t type, const BackendStep& step) {
  if (step.type != CUDNN_TYPE_INT64 || step.is_null || step.count <= 0) return false;
  if (type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    return step.attribute == CUDNN_ATTR_TENSOR_DIMENSIONS ||
           step.attribute == CUDNN_ATTR_TENSOR_STRIDES ||
           step.attribute == CUDNN_ATTR_TENSOR_UNIQUE_ID;
  }
  return step.attribute == CUDNN_ATTR_CONVOLUTION_DILATIONS ||
         step.attribute == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES ||
         step.attribute == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS ||
         step.attribute == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS;
}

bool HasOrdinarySizes(int32_t type, const std::vector<BackendStep>& steps) {
  std::vector<int64_t> dims, strides;
  for (const BackendStep& step : steps) {
    if (!IsSize(type, step)) continue;
    const std::vector<int64_t> numbers = Numbers(step);
    switch (step.attribute) {
      case CUDNN_ATTR_TENSOR_DIMENSIONS:
        dims = numbers;
        break;
      case CUDNN_ATTR_TENSOR_STRIDES:
        strides = numbers;
        break;
      case CUDNN_ATTR_TENSOR_UNIQUE_ID:
        if (!AllWithin(numbers, 0, kMaxElements)) return false;
        break;
      case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
      case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
        if (!AllWithin(numbers, 0, kMaxSize)) return false;
        break;
      default:
        if (!AllWithin(numbers, 1, kMaxSize)) return false;
    }
  }
  return type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || IsOrdinary(dims, strides);
}

}  // namespace

std::string PlainKind(int32_t type, const std::vector<BackendStep>& steps) {
  if (type != CUDNN_BACKEND_TENSOR_DESCRIPTOR && type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
    return "";
  if (!HasOrdinarySizes(type, steps)) return "";
  std::vector<BackendStep> kind = steps;
  for (BackendStep& step : kind)
    if (IsSize(type, step)) step.bytes.clear();  // their number stays
  return KeyOf(type, kind);
}

}  // namespace farcall::thin
