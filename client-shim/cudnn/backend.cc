// SPDX-License-Identifier: Apache-2.0
// The entries of the backend API. Codes for what is found here are those that cuDNN 9.19 gives.
#include "client-shim/cudnn/backend.h"

#include <algorithm>
#include <cstring>
#include <set>

#define CUDNN_ENTRY extern "C" __attribute__((visibility("default"))) cudnnStatus_t

using namespace farcall::thin;
using farcall::cudnn::Function;
using farcall::cudnn::kKind_cudnnBackendDescriptor_t;
using farcall::cudnn::kKind_cudnnHandle_t;

namespace farcall::thin {

Backend* FindBackend(cudnnBackendDescriptor_t descriptor) {
  return StateOf<Backend>(descriptor, kKind_cudnnBackendDescriptor_t);
}

}  // namespace farcall::thin

namespace {

cudnnStatus_t Code(int status) {
  return static_cast<cudnnStatus_t>(status);
}

cudnnStatus_t Bad(cudnnStatus_t status, const char* why) {
  SetLastError(why);
  return status;
}

// The elements as they are now; objects by what they are on the server.
cudnnStatus_t Capture(const void* elements, BackendStep* step) {
  step->is_null = elements == nullptr;
  if (step->is_null || step->count <= 0) return CUDNN_STATUS_SUCCESS;
  auto count = static_cast<size_t>(step->count);
  if (step->type == CUDNN_TYPE_HANDLE) {
    for (size_t i = 0; i < count; ++i) {
      void* handle = static_cast<void* const*>(elements)[i];
      farcall::client::LibraryObject* object = Find(handle, kKind_cudnnHandle_t);
      if (handle != nullptr && object == nullptr)
        return Bad(CUDNN_STATUS_BAD_PARAM, "a handle that is none");
      step->handles.push_back(handle);
      step->ids.push_back(object == nullptr ? 0 : object->id.load());
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (step->type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (size_t i = 0; i < count; ++i) {
      void* descriptor = static_cast<void* const*>(elements)[i];
      Backend* named = descriptor == nullptr ? nullptr : FindBackend(descriptor);
      if (descriptor != nullptr && named == nullptr)
        return Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
      step->handles.push_back(descriptor);
      step->contents.push_back(named == nullptr ? nullptr : named->content);
      step->ids.push_back(
          step->contents.back() == nullptr ? 0 : step->contents.back()->object->id.load());
    }
    return CUDNN_STATUS_SUCCESS;
  }
  step->bytes.assign(static_cast<const char*>(elements), count * BackendElementBytes(step->type));
  return CUDNN_STATUS_SUCCESS;
}

// Whether each descriptor that it names is finalized by now; what was not when it was set is taken
// up here.
bool Resolve(BackendStep* step) {
  for (size_t i = 0; i < step->contents.size(); ++i) {
    if (step->contents[i] != nullptr || step->handles[i] == nullptr) continue;
    Backend* named = FindBackend(step->handles[i]);
    if (named == nullptr || named->content == nullptr) return false;
    step->contents[i] = named->content;
    step->ids[i] = named->content->object->id.load();
  }
  return true;
}

const BackendStep* StepOf(const std::vector<BackendStep>& steps, int attribute) {
  for (const BackendStep& step : steps)
    if (step.attribute == attribute) return &step;
  return nullptr;
}

template <typename T>
T Element(const BackendStep& step, int64_t index) {
  T value{};
  size_t at = static_cast<size_t>(index) * sizeof(T);
  if (at + sizeof(T) <= step.bytes.size()) std::memcpy(&value, step.bytes.data() + at, sizeof(T));
  return value;
}

bool IsVariantPack(const Backend& backend) {
  return backend.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
}

// Of what was set and not sent: the handle as the program named it.
cudnnStatus_t GetHandle(const Backend& backend, int attribute, int64_t requested, int64_t* count,
                        void* elements) {
  const std::vector<BackendStep>& steps =
      backend.content == nullptr ? backend.steps : backend.content->steps;
  const BackendStep* step = StepOf(steps, attribute);
  if (step == nullptr || step->type != CUDNN_TYPE_HANDLE) return CUDNN_STATUS_NOT_SUPPORTED;
  auto have = static_cast<int64_t>(step->handles.size());
  if (elements != nullptr && requested < have) have = std::max<int64_t>(requested, 0);
  for (int64_t i = 0; elements != nullptr && i < have; ++i)
    static_cast<void**>(elements)[i] = step->handles[static_cast<size_t>(i)];
  if (count != nullptr) *count = have;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GetObjects(const Backend& backend, int attribute, int64_t requested, int64_t* count,
                         void** elements) {
  if (requested <= 0 || requested > static_cast<int64_t>(kBackendMostMade))
    return Bad(CUDNN_STATUS_BAD_PARAM, "a number of descriptors that cannot be");
  std::vector<Backend*> wanted;
  std::vector<int32_t> types;
  for (int64_t i = 0; i < requested; ++i) {
    Backend* one = FindBackend(elements[i]);
    if (one == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
    wanted.push_back(one);
    types.push_back(one->type);
  }
  BackendAnswer answer = AskContent(backend.content, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    requested, kBackendObjects, types);
  SetLastError(answer.text);
  if (answer.status != 0) return Code(answer.status);
  for (size_t i = 0; i < answer.made.size(); ++i) {
    wanted[i]->content = answer.made[i];
    wanted[i]->finalized = true;
    wanted[i]->object->id.store(answer.made[i]->object->id.load());
  }
  if (count != nullptr) *count = answer.count;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GetFromPack(const Backend& pack, int attribute, int type, int64_t requested,
                          int64_t* count, void* elements) {
  if (attribute < CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS ||
      attribute > CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
    return CUDNN_STATUS_BAD_PARAM;
  const BackendStep* step = StepOf(pack.steps, attribute);
  if (attribute != CUDNN_ATTR_VARIANT_PACK_WORKSPACE || type != CUDNN_TYPE_VOID_PTR)
    return attribute == CUDNN_ATTR_VARIANT_PACK_WORKSPACE ? CUDNN_STATUS_NOT_INITIALIZED
                                                          : CUDNN_STATUS_NOT_SUPPORTED;
  if (elements != nullptr && requested > 0) {
    auto workspace = step == nullptr ? nullptr : Element<void*>(*step, 0);
    std::memcpy(elements, &workspace, sizeof(workspace));
  }
  if (count != nullptr) *count = 1;
  return CUDNN_STATUS_SUCCESS;
}

// One data pointer: a device address, or the scalar that it points to on the host.
void PutData(Call& call, const BackendContent& plan, int64_t id, const void* pointer) {
  auto by_value = plan.by_value.find(id);
  if (by_value != plan.by_value.end() && pointer != nullptr)
    return call.In(pointer, by_value->second);
  call.ScalarAt(pointer, 0, true);
}

// A host array instead of a device address in one pack: the rest of the attributes go as they are.
void PutPackStep(Call& call, const Backend& pack, const BackendContent& plan,
                 const BackendStep& step) {
  if (step.attribute == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) {
    call.Value(step.attribute);
    call.Value(step.type);
    call.Value(step.count);
    const BackendStep* ids = StepOf(pack.steps, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int64_t i = 0; i < step.count; ++i) {
      int64_t id = ids == nullptr ? -1 : Element<int64_t>(*ids, i);
      PutData(call, plan, id, Element<const void*>(step, i));
    }
    return;
  }
  PutStep(call, step);
}

}  // namespace

CUDNN_ENTRY cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                         cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr)
    return Bad(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for the descriptor");
  Call call(Function::cudnnBackendCreateDescriptor);
  call.Cached();
  call.Value(static_cast<int32_t>(descriptorType));
  int status = call.Question();
  if (status != 0) return Code(status);
  auto backend = std::make_unique<Backend>();
  backend->type = descriptorType;
  backend->object =
      Channel().new_object(static_cast<uint8_t>(kLibrary.id),
                           static_cast<uint8_t>(kKind_cudnnBackendDescriptor_t), backend.get());
  if (backend->object == nullptr) return Code(kLibrary.memory);
  *descriptor = backend.release()->object;
  return CUDNN_STATUS_SUCCESS;
}

CUDNN_ENTRY cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
  Backend* backend = FindBackend(descriptor);
  if (backend == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  backend->object->state = nullptr;
  Channel().end_object(backend->object);
  delete backend;
  return CUDNN_STATUS_SUCCESS;
}

// Older programs call it after creating; there is nothing to do.
CUDNN_ENTRY cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  return FindBackend(descriptor) == nullptr
             ? Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none")
             : CUDNN_STATUS_SUCCESS;
}

CUDNN_ENTRY cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                     cudnnBackendAttributeName_t attributeName,
                                     cudnnBackendAttributeType_t attributeType,
                                     int64_t elementCount, const void* arrayOfElements) {
  if (descriptor == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
  Backend* backend = FindBackend(descriptor);
  if (backend == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  if (backend->finalized) return Bad(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  if (elementCount > kBackendMostCount)
    return Bad(CUDNN_STATUS_BAD_PARAM, "more elements than an attribute has");
  BackendStep step;
  step.attribute = attributeName;
  step.type = attributeType;
  step.count = elementCount;
  cudnnStatus_t captured = Capture(arrayOfElements, &step);
  if (captured != CUDNN_STATUS_SUCCESS) return captured;
  int status = Resolve(&step) ? ProbeStep(backend->type, step) : 0;
  if (status != 0) return Code(status);
  std::erase_if(backend->steps,
                [&](const BackendStep& old) { return old.attribute == step.attribute; });
  backend->steps.push_back(std::move(step));
  return CUDNN_STATUS_SUCCESS;
}

CUDNN_ENTRY cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
  Backend* backend = FindBackend(descriptor);
  if (backend == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  if (backend->finalized) return Bad(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
  if (IsVariantPack(*backend)) {
    const BackendStep* ids = StepOf(backend->steps, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const BackendStep* data = StepOf(backend->steps, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if ((ids == nullptr ? 0 : ids->count) != (data == nullptr ? 0 : data->count))
      return Bad(CUDNN_STATUS_BAD_PARAM, "as many pointers as unique ids are wanted");
    backend->finalized = true;
    return CUDNN_STATUS_SUCCESS;
  }
  for (BackendStep& step : backend->steps)
    if (!Resolve(&step)) return Bad(CUDNN_STATUS_BAD_PARAM, "it names one that is not finalized");
  BackendContentRef content;
  int status = FinalizeContent(backend->type, backend->steps, &content);
  if (status != 0) return Code(status);
  backend->content = std::move(content);
  backend->finalized = true;
  backend->object->id.store(backend->content->object->id.load());
  backend->steps.clear();
  return CUDNN_STATUS_SUCCESS;
}

CUDNN_ENTRY cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                     cudnnBackendAttributeName_t attributeName,
                                     cudnnBackendAttributeType_t attributeType,
                                     int64_t requestedElementCount, int64_t* elementCount,
                                     void* arrayOfElements) {
  Backend* backend = FindBackend(descriptor);
  if (backend == nullptr) return Bad(CUDNN_STATUS_BAD_PARAM, "a descriptor that is none");
  if (IsVariantPack(*backend)) {
    return GetFromPack(*backend, attributeName, attributeType, requestedElementCount, elementCount,
                       arrayOfElements);
  }
  if (!backend->finalized)
    return Bad(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized");
  if (attributeType == CUDNN_TYPE_HANDLE)
    return GetHandle(*backend, attributeName, requestedElementCount, elementCount, arrayOfElements);
  if (attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR && arrayOfElements != nullptr &&
      requestedElementCount > 0) {
    return GetObjects(*backend, attributeName, requestedElementCount, elementCount,
                      static_cast<void**>(arrayOfElements));
  }
  BackendAnswer answer =
      AskContent(backend->content, attributeName, attributeType, requestedElementCount,
                 arrayOfElements == nullptr ? kBackendCount : kBackendBytes, {});
  SetLastError(answer.text);
  if (answer.status != 0) return Code(answer.status);
  if (arrayOfElements != nullptr)
    std::memcpy(arrayOfElements, answer.bytes.data(), answer.bytes.size());
  if (elementCount != nullptr) *elementCount = answer.count;
  return CUDNN_STATUS_SUCCESS;
}

CUDNN_ENTRY cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                cudnnBackendDescriptor_t variantPack) {
  Backend* plan = FindBackend(executionPlan);
  Backend* pack = FindBackend(variantPack);
  if (plan == nullptr || pack == nullptr)
    return Bad(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a plan or variant pack that is none");
  if (plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !IsVariantPack(*pack))
    return Bad(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no execution plan and variant pack");
  if (plan->content == nullptr || !pack->finalized)
    return Bad(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor that is not finalized");
  Call call(Function::cudnnBackendExecute);
  call.Object(handle, {kKind_cudnnHandle_t});
  call.Object(executionPlan, {kKind_cudnnBackendDescriptor_t});
  call.Value(static_cast<uint32_t>(pack->steps.size()));
  for (const BackendStep& step : pack->steps) PutPackStep(call, *pack, *plan->content, step);
  // What a plan cannot do is told where it is first tried, as programs go to the next one then.
  if (plan->content->has_run.load(std::memory_order_acquire)) [[likely]]
    return Code(call.Run());
  std::string text;
  call.OutText(&text);
  int status = call.AskAnywhere();
  SetLastError(text);
  if (status == 0) plan->content->has_run.store(true, std::memory_order_release);
  return Code(status);
}

// A graph of the program's lives on the server under another name than cuDNN would give its nodes:
// engines are not offered for it (server/library/library_cudnn.cc), stream capture is.
CUDNN_ENTRY cudnnBackendPopulateCudaGraph(cudnnHandle_t, cudnnBackendDescriptor_t,
                                          cudnnBackendDescriptor_t, cudaGraph_t) {
  Refuse("cudnnBackendPopulateCudaGraph");
  return CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API;
}
CUDNN_ENTRY cudnnBackendUpdateCudaGraph(cudnnHandle_t, cudnnBackendDescriptor_t,
                                        cudnnBackendDescriptor_t, cudaGraph_t) {
  Refuse("cudnnBackendUpdateCudaGraph");
  return CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API;
}
