// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend API: the client's descriptors made real (proto/library/cudnn_backend.h has the
// forms).
#include "server/library/library_cudnn.h"

#include <algorithm>
#include <cstring>

#include "proto/library/cudnn_sizes.h"
#include "server/state/session.h"

namespace farcall::server {

using namespace farcall::thin;

namespace cudnn_backend {

constexpr int64_t kMaxAnswerBytes = 256 << 10;

uint64_t PayloadBytes(const Step& step) {
  return Times(step.count, BackendElementBytes(step.type));
}

const void* ReadPlain(LibraryCall& call, const Step& step) {
  if (step.type == CUDNN_TYPE_VOID_PTR)
    return call.Addresses<const void*>(static_cast<uint64_t>(std::max<int64_t>(step.count, 0)));
  const void* elements = call.In<const void*>(PayloadBytes(step));
  // Of a type whose size is not known, the library would read more than there is.
  call.Require(BackendElementBytes(step.type) != 0 || step.count <= 0 || elements == nullptr,
               CUDNN_STATUS_NOT_SUPPORTED);
  return elements;
}

void ReadElements(LibraryCall& call, bool is_variant, Step* step) {
  if (step->count > kBackendMostCount)
    return call.base().Reject("an attribute of too many elements");
  bool is_data = is_variant && step->attribute == kBackendDataPointers;
  if (!is_data && step->type != kBackendTypeHandle && step->type != kBackendTypeDescriptor) {
    step->elements = ReadPlain(call, *step);
    return;
  }
  for (int64_t i = 0; i < step->count && !call.base().rejected(); ++i)
    if (is_data)
      step->pointers.push_back(call.AddressOrScalar<void*>());
    else if (step->type == kBackendTypeHandle)
      step->pointers.push_back(call.Object<void*>({cudnn::kKind_cudnnHandle_t}, true));
    else
      step->pointers.push_back(call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t}, true));
  // As many words each: of another type the library would read past them.
  call.Require(!is_data || step->type == CUDNN_TYPE_VOID_PTR, CUDNN_STATUS_BAD_PARAM);
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
    call.base().Reject("a descriptor of too many attributes");
    return steps;
  }
  for (uint32_t i = 0; i < count && !call.base().rejected(); ++i)
    steps.push_back(ReadStep(call, is_variant));
  return steps;
}

int Set(const Api& api, cudnnBackendDescriptor_t descriptor, const Step& step) {
  return api.set(descriptor, static_cast<cudnnBackendAttributeName_t>(step.attribute),
                 static_cast<cudnnBackendAttributeType_t>(step.type), step.count, step.elements);
}

int SetAll(const Api& api, cudnnBackendDescriptor_t descriptor, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    int status = Set(api, descriptor, step);
    if (status != 0) return status;
  }
  return 0;
}

std::string ErrorText(const Api& api, int status) {
  char text[2048] = {};
  if (status != 0 && api.error != nullptr) api.error(text, sizeof(text));
  return {text, strnlen(text, sizeof(text))};
}

void SayError(LibraryCall& call, const Api& api) {
  const std::string text = ErrorText(api, call.status);
  call.Say(text.data(), text.size());
}

// What does not share its memory with the program's CUDA graphs is not offered as if it did.
int64_t WithoutNativeGraphs(cudnnBackendBehaviorNote_t* notes, int64_t count) {
  return std::remove(notes, notes + count, CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API) -
         notes;
}

Answer AnswerNotes(const Api& api, const Question& question) {
  cudnnBackendBehaviorNote_t notes[64] = {};
  Answer answer;
  answer.status =
      api.get(question.descriptor, question.attribute, question.type, 64, &answer.count, notes);
  if (answer.status == 0)
    answer.count = WithoutNativeGraphs(notes, std::clamp<int64_t>(answer.count, 0, 64));
  if (question.form == kBackendBytes) {
    answer.count = std::clamp<int64_t>(question.requested, 0, answer.count);
    answer.bytes.assign(reinterpret_cast<const char*>(notes),
                        static_cast<size_t>(answer.count) * sizeof(notes[0]));
  }
  return answer;
}

// What it writes is addresses: of memory that the session may have, or nothing is told.
void CheckAddresses(LibraryCall& call, Answer* answer) {
  for (size_t at = 0; at + sizeof(uint64_t) <= answer->bytes.size(); at += sizeof(uint64_t)) {
    uint64_t address = 0;
    std::memcpy(&address, answer->bytes.data() + at, sizeof(address));
    if (address != 0 && !call.base().session.MayReach(address, 1)) {
      answer->status = CUDNN_STATUS_NOT_SUPPORTED;
      answer->bytes.clear();
    }
  }
}

Answer AnswerBytes(LibraryCall& call, const Api& api, const Question& question) {
  const uint64_t element = BackendElementBytes(question.type);
  constexpr uint64_t kMaxElementBytes = 16;  // whatever the type is to the library
  Answer answer;
  if (question.form == kBackendCount) {
    answer.status = api.get(question.descriptor, question.attribute, question.type,
                            question.requested, &answer.count, nullptr);
    return answer;
  }
  const int64_t wanted = std::max<int64_t>(question.requested, 0);
  if (element == 0 || wanted > kMaxAnswerBytes / static_cast<int64_t>(element)) {
    answer.status = CUDNN_STATUS_NOT_SUPPORTED;
    return answer;
  }
  answer.bytes.resize((static_cast<size_t>(wanted) + 1) * kMaxElementBytes);
  answer.status = api.get(question.descriptor, question.attribute, question.type,
                          question.requested, &answer.count, answer.bytes.data());
  const int64_t filled = answer.status == 0 ? std::clamp<int64_t>(answer.count, 0, wanted) : 0;
  answer.bytes.resize(static_cast<size_t>(filled) * element);
  if (question.type == CUDNN_TYPE_VOID_PTR) CheckAddresses(call, &answer);
  return answer;
}

// The library fills descriptors that the caller has made: what it fills is an object from now on.
Answer AnswerObjects(LibraryCall& call, const Api& api, const Question& question,
                     const std::vector<Wanted>& wanted, Natives* natives_made = nullptr) {
  std::vector<Descriptor> made;
  std::vector<cudnnBackendDescriptor_t> natives;
  made.reserve(wanted.size());
  Answer answer;
  for (const Wanted& one : wanted) {
    made.emplace_back(api, one.type);
    natives.push_back(made.back().native());
    answer.status = answer.status == 0 ? made.back().status() : answer.status;
  }
  if (answer.status == 0) {
    answer.status = api.get(question.descriptor, question.attribute, question.type,
                            question.requested, &answer.count, natives.data());
  }
  for (size_t i = 0;
       answer.status == 0 && i < wanted.size() && static_cast<int64_t>(i) < answer.count; ++i) {
    if (natives_made != nullptr) natives_made->emplace(wanted[i].name, made[i].native());
    call.Keep(wanted[i].name, made[i].Release(), 0);
  }
  return answer;
}

Answer AnswerTo(LibraryCall& call, const Api& api, const Question& question,
                const std::vector<Wanted>& wanted, Natives* made) {
  Answer answer =
      question.form == kBackendObjects ? AnswerObjects(call, api, question, wanted, made)
      : question.attribute == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE ? AnswerNotes(api, question)
                                                              : AnswerBytes(call, api, question);
  answer.text = ErrorText(api, answer.status);
  return answer;
}

void ReadQuestion(LibraryCall& call, Question* question, std::vector<Wanted>* wanted) {
  question->attribute = static_cast<cudnnBackendAttributeName_t>(call.Value<int32_t>());
  question->type = static_cast<cudnnBackendAttributeType_t>(call.Value<int32_t>());
  question->requested = call.Value<int64_t>();
  question->form = call.Value<uint32_t>();
  const bool has_objects = question->form == kBackendObjects;
  uint32_t made = has_objects ? call.Value<uint32_t>() : 0;
  // Of another type, the library would write more than a pointer each.
  if (has_objects && question->type != kBackendTypeDescriptor)
    return call.base().Reject("descriptors asked for as something else");
  if (made > kBackendMostMade || (made != 0 && made != question->requested))
    return call.base().Reject("another number of descriptors than are asked for");
  for (uint32_t i = 0; i < made && !call.base().rejected(); ++i) {
    int type = call.Value<int32_t>();
    wanted->push_back({type, call.TakeName(cudnn::kKind_cudnnBackendDescriptor_t)});
  }
}

int FinalizeAs(LibraryCall& call, const Api& api, uint64_t name, int type,
               const std::vector<Step>& steps, Natives* natives) {
  Descriptor made(api, type);
  int status = made.status();
  if (status == 0) status = SetAll(api, made.native(), steps);
  if (status == 0) status = api.finalize(made.native());
  if (status == 0) {
    if (natives != nullptr) natives->emplace(name, made.native());
    call.Keep(name, made.Release(), 0);
  }
  return status;
}

}  // namespace cudnn_backend

using namespace cudnn_backend;
using cudnn::Function;

void Serve_cudnnBackendCreateDescriptor(LibraryCall& call) {
  auto type = call.Value<int32_t>();
  Api api(call);
  if (call.Ready()) call.status = Descriptor(api, type).status();
}

void Serve_cudnnBackendSetAttribute(LibraryCall& call) {
  auto type = call.Value<int32_t>();
  Step step = ReadStep(call, false);
  Api api(call);
  if (!call.Ready()) return;
  Descriptor made(api, type);
  call.status = made.status() != 0 ? made.status() : Set(api, made.native(), step);
  SayError(call, api);
}

void Serve_cudnnBackendFinalize(LibraryCall& call) {
  uint64_t name = call.TakeName(cudnn::kKind_cudnnBackendDescriptor_t);
  auto type = call.Value<int32_t>();
  std::vector<Step> steps = ReadSteps(call, false);
  Api api(call);
  if (!call.Ready()) return;
  call.status = FinalizeAs(call, api, name, type, steps, nullptr);
  SayError(call, api);
}

void Serve_cudnnBackendGetAttribute(LibraryCall& call) {
  Question question{};
  question.descriptor = call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t});
  std::vector<Wanted> wanted;
  ReadQuestion(call, &question, &wanted);
  Api api(call);
  if (!call.Ready()) return;
  const Answer answer = AnswerTo(call, api, question, wanted);
  call.status = call.status == 0 ? answer.status : call.status;
  call.Say(&answer.count, sizeof(answer.count));
  call.Say(answer.bytes.data(), answer.bytes.size());
  call.Say(answer.text.data(), answer.text.size());
}

void Serve_cudnnBackendExecute(LibraryCall& call) {
  auto handle = call.Object<cudnnHandle_t>({cudnn::kKind_cudnnHandle_t});
  auto plan = call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t});
  std::vector<Step> steps = ReadSteps(call, true);
  Api api(call);
  if (!call.Ready() ||
      (call.HasNewStream() && !call.Succeeded(api.set_stream(handle, call.stream()))))
    return;
  Descriptor pack(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  call.status = pack.status();
  if (call.status == 0) call.status = SetAll(api, pack.native(), steps);
  if (call.status == 0) call.status = api.finalize(pack.native());
  if (call.status == 0) call.status = api.execute(handle, plan, pack.native());
  SayError(call, api);
}

void Serve_cudnnGetCudartVersion(LibraryCall& call) {
  auto id = [](Function function) { return static_cast<uint16_t>(function); };
  auto version = call.Of<decltype(&::cudnnGetVersion)>(id(Function::cudnnGetVersion));
  auto cudart = call.Of<decltype(&::cudnnGetCudartVersion)>(id(Function::cudnnGetCudartVersion));
  auto device =
      call.Of<decltype(&::cudnnGetMaxDeviceVersion)>(id(Function::cudnnGetMaxDeviceVersion));
  if (!call.Ready()) return;
  for (auto get : {version, cudart, device}) {
    uint64_t value = get();
    call.Say(&value, sizeof(value));
  }
}

}  // namespace farcall::server
