// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend API: the client's descriptors made real (proto/cudnn_backend.h has the forms).
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "proto/cudnn_backend.h"
#include "proto/cudnn_call.h"
#include "proto/cudnn_sizes.h"
#include "server/library_call.h"

namespace farcall::server {

namespace {

using cudnn::Function;
using namespace farcall::thin;

constexpr int64_t kMostAnswerBytes = 256 << 10;

struct Api {
  explicit Api(LibraryCall& call)
      : create(Of<decltype(&::cudnnBackendCreateDescriptor)>(
            call, Function::cudnnBackendCreateDescriptor)),
        destroy(Of<decltype(&::cudnnBackendDestroyDescriptor)>(
            call, Function::cudnnBackendDestroyDescriptor)),
        set(Of<decltype(&::cudnnBackendSetAttribute)>(call, Function::cudnnBackendSetAttribute)),
        get(Of<decltype(&::cudnnBackendGetAttribute)>(call, Function::cudnnBackendGetAttribute)),
        finalize(Of<decltype(&::cudnnBackendFinalize)>(call, Function::cudnnBackendFinalize)),
        execute(Of<decltype(&::cudnnBackendExecute)>(call, Function::cudnnBackendExecute)),
        error(Of<decltype(&::cudnnGetLastErrorString)>(call, Function::cudnnGetLastErrorString)),
        set_stream(Of<decltype(&::cudnnSetStream)>(call, Function::cudnnSetStream)) {}
  template <typename T>
  static T Of(LibraryCall& call, Function function) {
    return call.Of<T>(static_cast<uint16_t>(function));
  }
  decltype(&::cudnnBackendCreateDescriptor) create;
  decltype(&::cudnnBackendDestroyDescriptor) destroy;
  decltype(&::cudnnBackendSetAttribute) set;
  decltype(&::cudnnBackendGetAttribute) get;
  decltype(&::cudnnBackendFinalize) finalize;
  decltype(&::cudnnBackendExecute) execute;
  decltype(&::cudnnGetLastErrorString) error;
  decltype(&::cudnnSetStream) set_stream;
};

// A real descriptor that ends with the call unless it is released.
class Descriptor {
 public:
  Descriptor(const Api& api, int type) : api_(api) {
    status_ = api.create(static_cast<cudnnBackendDescriptorType_t>(type), &native_);
  }
  Descriptor(Descriptor&& other) noexcept
      : api_(other.api_), native_(other.Release()), status_(other.status_) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (native_ != nullptr) api_.destroy(native_);
  }
  int status() const { return status_; }
  cudnnBackendDescriptor_t native() const { return native_; }
  cudnnBackendDescriptor_t Release() {
    cudnnBackendDescriptor_t released = native_;
    native_ = nullptr;
    return released;
  }

 private:
  const Api& api_;
  cudnnBackendDescriptor_t native_ = nullptr;
  int status_ = 0;
};

struct Step {
  int attribute = 0;
  int type = 0;
  int64_t count = 0;
  const void* elements = nullptr;
  std::vector<void*> pointers;
};

uint64_t PayloadBytes(const Step& step) {
  return Times(step.count, BackendElementBytes(step.type));
}

// The step's elements; a count that no program means is the client's lie.
void ReadElements(LibraryCall& call, bool is_variant, Step* step) {
  if (step->count > kBackendMostCount) {
    return call.base().Lie("an attribute of too many elements");
  }
  bool is_data = is_variant && step->attribute == kBackendDataPointers;
  if (!is_data && step->type != kBackendTypeHandle && step->type != kBackendTypeDescriptor) {
    step->elements = call.Captured<const void*>(PayloadBytes(*step));
    return;
  }
  for (int64_t i = 0; i < step->count && !call.base().lie(); ++i) {
    if (is_data) {
      step->pointers.push_back(call.Captured<void*>(kAnyBytes));
    } else if (step->type == kBackendTypeHandle) {
      step->pointers.push_back(call.Object<void*>({cudnn::kKind_cudnnHandle_t}, true));
    } else {
      step->pointers.push_back(call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t}, true));
    }
  }
  step->elements = step->pointers.data();
}

Step ReadStep(LibraryCall& call, bool is_variant) {
  Step step;
  step.attribute = call.Value<int32_t>();
  step.type = call.Value<int32_t>();
  step.count = call.Value<int64_t>();
  ReadElements(call, is_variant, &step);
  return step;
}

std::vector<Step> ReadSteps(LibraryCall& call, bool is_variant) {
  auto count = call.Value<uint32_t>();
  std::vector<Step> steps;
  if (count > kBackendMostSteps) {
    call.base().Lie("a descriptor of too many attributes");
    return steps;
  }
  for (uint32_t i = 0; i < count && !call.base().lie(); ++i) {
    steps.push_back(ReadStep(call, is_variant));
  }
  return steps;
}

int Set(const Api& api, cudnnBackendDescriptor_t descriptor, const Step& step) {
  return api.set(descriptor, static_cast<cudnnBackendAttributeName_t>(step.attribute),
                 static_cast<cudnnBackendAttributeType_t>(step.type), step.count, step.elements);
}

int SetAll(const Api& api, cudnnBackendDescriptor_t descriptor, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    int status = Set(api, descriptor, step);
    if (status != 0) {
      return status;
    }
  }
  return 0;
}

void SayError(LibraryCall& call, const Api& api) {
  char text[2048] = {};
  if (call.status != 0 && api.error != nullptr) {
    api.error(text, sizeof(text));
  }
  call.Say(text, strnlen(text, sizeof(text)));
}

// What does not share its memory with the program's CUDA graphs is not offered as if it did.
int64_t WithoutNativeGraphs(cudnnBackendBehaviorNote_t* notes, int64_t count) {
  return std::remove(notes, notes + count, CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API) -
         notes;
}

struct Question {
  cudnnBackendDescriptor_t descriptor;
  cudnnBackendAttributeName_t attribute;
  cudnnBackendAttributeType_t type;
  int64_t requested;
  uint32_t form;
};

void SayAnswer(LibraryCall& call, const Api& api, int64_t count, const void* bytes, uint64_t size) {
  call.Say(&count, sizeof(count));
  call.Say(bytes, size);
  SayError(call, api);
}

void AnswerNotes(LibraryCall& call, const Api& api, const Question& question) {
  cudnnBackendBehaviorNote_t notes[64] = {};
  int64_t count = 0;
  call.status = api.get(question.descriptor, question.attribute, question.type, 64, &count, notes);
  if (call.status == 0) {
    count = WithoutNativeGraphs(notes, std::clamp<int64_t>(count, 0, 64));
  }
  bool bytes = question.form == kBackendBytes;
  count = bytes ? std::min(count, question.requested) : count;
  SayAnswer(call, api, count, notes, bytes ? static_cast<uint64_t>(count) * sizeof(notes[0]) : 0);
}

void AnswerBytes(LibraryCall& call, const Api& api, const Question& question) {
  uint64_t element = BackendElementBytes(question.type);
  int64_t most = element == 0 ? 0 : kMostAnswerBytes / static_cast<int64_t>(element);
  int64_t count = 0;
  if (question.form == kBackendCount || question.requested <= 0 || element == 0) {
    std::byte none[16] = {};
    call.status =
        api.get(question.descriptor, question.attribute, question.type, question.requested, &count,
                question.form == kBackendCount ? nullptr : none);
    return SayAnswer(call, api, count, nullptr, 0);
  }
  if (question.requested > most) {
    call.status = CUDNN_STATUS_NOT_SUPPORTED;
    return SayAnswer(call, api, 0, nullptr, 0);
  }
  std::vector<std::byte> room(static_cast<size_t>(question.requested) * element);
  call.status = api.get(question.descriptor, question.attribute, question.type, question.requested,
                        &count, room.data());
  uint64_t filled = call.status == 0 ? std::min<uint64_t>(Times(count, element), room.size()) : 0;
  SayAnswer(call, api, count, room.data(), filled);
}

struct Wanted {
  int type;
  uint64_t name;
};

// The library fills descriptors that the caller has made: what it fills is an object from now on.
void AnswerObjects(LibraryCall& call, const Api& api, const Question& question,
                   const std::vector<Wanted>& wanted) {
  std::vector<Descriptor> made;
  std::vector<cudnnBackendDescriptor_t> natives;
  made.reserve(wanted.size());
  for (const Wanted& one : wanted) {
    made.emplace_back(api, one.type);
    natives.push_back(made.back().native());
    call.status = call.status == 0 ? made.back().status() : call.status;
  }
  int64_t count = 0;
  if (call.status == 0) {
    call.status = api.get(question.descriptor, question.attribute, question.type,
                          question.requested, &count, natives.data());
  }
  for (size_t i = 0; call.status == 0 && i < wanted.size() && static_cast<int64_t>(i) < count;
       ++i) {
    call.Keep(wanted[i].name, made[i].Release(), 0);
  }
  SayAnswer(call, api, count, nullptr, 0);
}

}  // namespace

void Serve_cudnnBackendCreateDescriptor(LibraryCall& call) {
  auto type = call.Value<int32_t>();
  Api api(call);
  if (call.Ready()) {
    call.status = Descriptor(api, type).status();
  }
}

void Serve_cudnnBackendSetAttribute(LibraryCall& call) {
  auto type = call.Value<int32_t>();
  Step step = ReadStep(call, false);
  Api api(call);
  if (!call.Ready()) {
    return;
  }
  Descriptor made(api, type);
  call.status = made.status() != 0 ? made.status() : Set(api, made.native(), step);
  SayError(call, api);
}

void Serve_cudnnBackendFinalize(LibraryCall& call) {
  uint64_t name = call.TakeName(cudnn::kKind_cudnnBackendDescriptor_t);
  auto type = call.Value<int32_t>();
  std::vector<Step> steps = ReadSteps(call, false);
  Api api(call);
  if (!call.Ready()) {
    return;
  }
  Descriptor made(api, type);
  call.status = made.status();
  if (call.status == 0) {
    call.status = SetAll(api, made.native(), steps);
  }
  if (call.status == 0) {
    call.status = api.finalize(made.native());
  }
  if (call.status == 0) {
    call.Keep(name, made.Release(), 0);
  }
  SayError(call, api);
}

void Serve_cudnnBackendGetAttribute(LibraryCall& call) {
  Question question{};
  question.descriptor = call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t});
  question.attribute = static_cast<cudnnBackendAttributeName_t>(call.Value<int32_t>());
  question.type = static_cast<cudnnBackendAttributeType_t>(call.Value<int32_t>());
  question.requested = call.Value<int64_t>();
  question.form = call.Value<uint32_t>();
  std::vector<Wanted> wanted;
  uint32_t made = question.form == kBackendObjects ? call.Value<uint32_t>() : 0;
  if (made > kBackendMostMade || (made != 0 && made != question.requested)) {
    return call.base().Lie("another number of descriptors than are asked for");
  }
  for (uint32_t i = 0; i < made && !call.base().lie(); ++i) {
    int type = call.Value<int32_t>();
    wanted.push_back({type, call.TakeName(cudnn::kKind_cudnnBackendDescriptor_t)});
  }
  Api api(call);
  if (!call.Ready()) {
    return;
  }
  if (question.form == kBackendObjects) {
    AnswerObjects(call, api, question, wanted);
  } else if (question.attribute == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
    AnswerNotes(call, api, question);
  } else {
    AnswerBytes(call, api, question);
  }
}

void Serve_cudnnBackendExecute(LibraryCall& call) {
  auto handle = call.Object<cudnnHandle_t>({cudnn::kKind_cudnnHandle_t});
  auto plan = call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t});
  std::vector<Step> steps = ReadSteps(call, true);
  Api api(call);
  if (!call.Ready() || (call.HasNewStream() && !call.Told(api.set_stream(handle, call.stream())))) {
    return;
  }
  Descriptor pack(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  call.status = pack.status();
  if (call.status == 0) {
    call.status = SetAll(api, pack.native(), steps);
  }
  if (call.status == 0) {
    call.status = api.finalize(pack.native());
  }
  if (call.status == 0) {
    call.status = api.execute(handle, plan, pack.native());
  }
  SayError(call, api);
}

void Serve_cudnnGetCudartVersion(LibraryCall& call) {
  auto id = [](Function function) { return static_cast<uint16_t>(function); };
  auto version = call.Of<decltype(&::cudnnGetVersion)>(id(Function::cudnnGetVersion));
  auto cudart = call.Of<decltype(&::cudnnGetCudartVersion)>(id(Function::cudnnGetCudartVersion));
  auto device =
      call.Of<decltype(&::cudnnGetMaxDeviceVersion)>(id(Function::cudnnGetMaxDeviceVersion));
  if (!call.Ready()) {
    return;
  }
  for (auto get : {version, cudart, device}) {
    uint64_t value = get();
    call.Say(&value, sizeof(value));
  }
}

}  // namespace farcall::server
