// SPDX-License-Identifier: Apache-2.0
// A descriptor finalized with what the client expects to be asked next
// (proto/library/cudnn_backend.h).
#include "server/library/library_cudnn.h"

namespace farcall::server {

using namespace cudnn_backend;
using namespace farcall::thin;

namespace {

// What the client expects its program to ask next. Names of what earlier ones make are resolved
// when that is done.
struct Next {
  bool finalizes = false;
  // of a finalization
  uint64_t name = 0;
  int type = 0;
  std::vector<Step> steps;
  struct Hole {
    size_t step, element;
    uint64_t name;
  };
  std::vector<Hole> holes;
  // of a question
  uint64_t of = 0;
  Question question{};
  std::vector<Wanted> wanted;
};

void ReadNextSteps(LibraryCall& call, Next* next) {
  auto count = call.Value<uint32_t>();
  if (count > kBackendMostSteps) return call.base().Reject("a descriptor of too many attributes");
  for (uint32_t i = 0; i < count && !call.base().rejected(); ++i) {
    Step step;
    step.attribute = call.Value<int32_t>();
    step.type = call.Value<int32_t>();
    step.count = call.Value<int64_t>();
    if (step.type != kBackendTypeDescriptor)
      ReadElements(call, false, &step);
    else if (step.count > kBackendMostCount)
      return call.base().Reject("an attribute of too many elements");
    for (int64_t e = 0;
         step.type == kBackendTypeDescriptor && e < step.count && !call.base().rejected(); ++e) {
      if (call.Value<uint32_t>() != 0) {
        next->holes.push_back({i, step.pointers.size(), call.Value<uint64_t>()});
        step.pointers.push_back(nullptr);
      } else {
        step.pointers.push_back(call.Object<void*>({cudnn::kKind_cudnnBackendDescriptor_t}, true));
      }
    }
    next->steps.push_back(std::move(step));
  }
}

std::vector<Next> ReadNexts(LibraryCall& call) {
  std::vector<Next> nexts;
  auto count = call.Value<uint32_t>();
  if (count > kBackendMostNext) {
    call.base().Reject("more questions ahead than one record has");
    return nexts;
  }
  for (uint32_t i = 0; i < count && !call.base().rejected(); ++i) {
    Next& next = nexts.emplace_back();
    next.finalizes = call.Value<uint32_t>() != 0;
    if (next.finalizes) {
      next.name = call.TakeName(cudnn::kKind_cudnnBackendDescriptor_t);
      next.type = call.Value<int32_t>();
      ReadNextSteps(call, &next);
    } else {
      next.of = call.Value<uint64_t>();
      ReadQuestion(call, &next.question, &next.wanted);
    }
  }
  return nexts;
}

// False: what it names was not made.
bool FillHoles(Next* next, const Natives& natives) {
  for (const Next::Hole& hole : next->holes) {
    auto found = natives.find(hole.name);
    if (found == natives.end()) return false;
    next->steps[hole.step].pointers[hole.element] = found->second;
  }
  for (Step& step : next->steps)
    if (step.type == kBackendTypeHandle || step.type == kBackendTypeDescriptor)
      step.elements = step.pointers.data();
  return true;
}

// False: it cannot be asked.
bool AnswerNext(LibraryCall& call, const Api& api, Next* next, Natives* natives, Answer* answer) {
  if (next->finalizes) {
    if (!FillHoles(next, *natives)) return false;
    answer->status = FinalizeAs(call, api, next->name, next->type, next->steps, natives);
    answer->text = ErrorText(api, answer->status);
    return true;
  }
  auto of = natives->find(next->of);
  if (of == natives->end()) return false;
  next->question.descriptor = of->second;
  *answer = AnswerTo(call, api, next->question, next->wanted, natives);
  return true;
}

void SayAnswers(LibraryCall& call, const Api& api, std::vector<Next>& nexts, Natives& natives) {
  Builder out;
  out.Put<uint32_t>(static_cast<uint32_t>(nexts.size()));
  uint64_t bytes = 0;
  for (Next& next : nexts) {
    Answer answer;
    bool asked = call.status == 0 && bytes < kBackendMostNextBytes &&
                 AnswerNext(call, api, &next, &natives, &answer);
    bytes += answer.bytes.size() + answer.text.size();
    out.Put<int32_t>(answer.status);
    out.Put<uint32_t>(asked ? 1 : 0);
    out.Put<int64_t>(answer.count);
    out.PutString(answer.bytes);
    out.PutString(answer.text);
  }
  call.Say(out.bytes().data(), out.bytes().size());
}

}  // namespace

// The client's own: what its program is expected to ask next comes along.
void Serve_cudnnBackendInitialize(LibraryCall& call) {
  uint64_t name = call.TakeName(cudnn::kKind_cudnnBackendDescriptor_t);
  auto type = call.Value<int32_t>();
  std::vector<Step> steps = ReadSteps(call, false);
  std::vector<Next> nexts = ReadNexts(call);
  Api api(call);
  if (!call.Ready()) return;
  Natives natives;
  call.status = FinalizeAs(call, api, name, type, steps, &natives);
  SayError(call, api);
  SayAnswers(call, api, nexts, natives);
}

}  // namespace farcall::server
