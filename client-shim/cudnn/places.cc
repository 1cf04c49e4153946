// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cudnn/places.h"

#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "client-shim/thin/call.h"
#include "client-shim/thin/content.h"
#include "client-shim/thin/kept.h"
#include "generated/proto/cudnn_call.h"

namespace farcall::thin {

using cudnn::Function;
using cudnn::kKind_cudnnTensorDescriptor_t;

namespace {

struct Known {
  std::mutex mutex;
  std::map<std::string, Places> by_question;
};
constexpr size_t kMaxKnown = 1u << 15;

Known& TheKnown() {
  static auto* known = new Known;
  return *known;
}

void Note(std::string key, const Places& places) {
  Known& known = TheKnown();
  std::lock_guard lock(known.mutex);
  if (known.by_question.size() < kMaxKnown) known.by_question.emplace(std::move(key), places);
}

}  // namespace

bool FindPlaces(const std::string& key, const std::string& print, Places* places) {
  Known& known = TheKnown();
  {
    std::lock_guard lock(known.mutex);
    auto found = known.by_question.find(key);
    if (found != known.by_question.end()) {
      *places = found->second;
      return true;
    }
  }
  std::string kept;
  Places found;
  if (!FindKept(Kept::kPlaces, print, &kept) || kept.size() != sizeof(found)) return false;
  std::memcpy(&found, kept.data(), sizeof(found));
  for (const Place* place : {&found.matrix, &found.bias})
    if (place->count < 0 || place->count > CUDNN_DIM_MAX) return false;
  *places = found;
  Note(key, found);
  return true;
}

void NotePlaces(std::string key, const std::string& print, const Places& places) {
  static_assert(std::is_trivially_copyable_v<Places>);
  Keep(Kept::kPlaces, print, {reinterpret_cast<const char*>(&places), sizeof(places)});
  Note(std::move(key), places);
}

FilledTensor::FilledTensor() {
  Call call(Function::cudnnCreateTensorDescriptor);
  call.New(&tensor_, kKind_cudnnTensorDescriptor_t);
  status_ = call.Run();
}

FilledTensor::~FilledTensor() {
  if (tensor_ == nullptr) return;
  Call call(Function::cudnnDestroyTensorDescriptor);
  call.Object(tensor_, {kKind_cudnnTensorDescriptor_t});
  call.End(tensor_);
  call.Run();
}

int FilledTensor::Read(Place* place) const {
  Call call(Function::cudnnGetTensorNdDescriptor);
  call.Object(tensor_, {kKind_cudnnTensorDescriptor_t});
  call.Value(int{CUDNN_DIM_MAX});
  call.Out(&place->type, sizeof(place->type));
  call.Out(&place->count, sizeof(place->count));
  call.Out(place->dims, sizeof(place->dims));
  call.Out(place->strides, sizeof(place->strides));
  return call.AskAnywhere();
}

int DescribeAs(const Place& place, cudnnTensorDescriptor_t tensor) {
  if (tensor == nullptr) return 0;
  if (place.count != 0)
    return cudnnSetTensorNdDescriptor(tensor, place.type, place.count, place.dims, place.strides);
  Described* described = FindDescribed(tensor, kKind_cudnnTensorDescriptor_t);
  return described == nullptr ? CUDNN_STATUS_BAD_PARAM : ResetDescribed(described);
}

}  // namespace farcall::thin
