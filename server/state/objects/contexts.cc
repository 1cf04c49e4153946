// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/contexts.h"

#include <utility>

#include "server/device/current_context.h"
#include "server/device/event_clock.h"
#include "server/state/queues/countdown.h"

namespace farcall::server {

Contexts::Contexts(const DriverApi& api, HandleTable& table, Streams& streams, EventClock* clock,
                   Freed freed)
    : api_(api),
      table_(table),
      streams_(streams),
      clock_(clock),
      freed_(std::move(freed)),
      slots_(UINT16_MAX + 1) {}

ContextState& Contexts::Make(uint16_t slot) {
  all_.push_back(std::make_unique<ContextState>());
  slots_[slot] = all_.back().get();
  ContextState& context = *slots_[slot];
  context.slot = slot;
  context.legacy = {streams_.NewKey(), CU_STREAM_LEGACY, &context, false};
  context.legacy.is_default = true;
  return context;
}

CUresult Contexts::Find(const RecordHeader& header, bool may_come, ContextState** context,
                        bool* stalled) {
  if (header.context == 0) return CUDA_ERROR_INVALID_CONTEXT;
  // The slot's newest life: the client says the slot only.
  HandleTable::Found found = table_.FindNewest(header.context);
  switch (found.state) {
    case HandleTable::State::kLive:
      *context = slots_[header.context];
      return CUDA_SUCCESS;
    case HandleTable::State::kPending:
      *stalled = true;
      return CUDA_SUCCESS;
    case HandleTable::State::kFailed:
      return CUDA_ERROR_INVALID_CONTEXT;
    default:
      break;
  }
  if (may_come) {
    *stalled = true;
    return CUDA_SUCCESS;
  }
  return found.state == HandleTable::State::kDead ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                  : CUDA_ERROR_INVALID_CONTEXT;
}

// Late answers may name contexts that are gone.
bool Contexts::IsLive(const ContextState& context) {
  return slots_[context.slot] == &context &&
         table_.FindNewest(context.slot).state == HandleTable::State::kLive;
}

std::map<int, CUcontext> Contexts::Live() {
  std::map<int, CUcontext> contexts;
  for (const std::unique_ptr<ContextState>& context : all_)
    if (context->native != nullptr && IsLive(*context))
      contexts.try_emplace(context->device, context->native);
  return contexts;
}

void Contexts::MakeCurrent(const ContextState* context) {
  CurrentContext::Set(api_, context == nullptr ? nullptr : context->native);
}

void Contexts::FenceDevice(int device, std::function<void()> done) {
  std::vector<ContextState*> contexts;
  for (const std::unique_ptr<ContextState>& context : all_) {
    bool may_work = !context->active.empty() || !context->orphans.empty();
    if (context->device == device && may_work && IsLive(*context))
      contexts.push_back(context.get());
  }
  std::shared_ptr<EventClock::Batch> timed;
  if (clock_ != nullptr) timed = clock_->Close(device);
  auto all =
      std::make_shared<Countdown>(1, [this, device, timed, done = std::move(done)](CUresult) {
        if (timed != nullptr) clock_->Reached(device, *timed);
        done();
      });
  const auto reached = [all](CUresult) { all->Reach(CUDA_SUCCESS); };  // errors: the application's
  for (ContextState* context : contexts) {
    MakeCurrent(context);
    for (StreamState* stream : context->active)
      if (timed != nullptr && !streams_.capturing(stream->native))
        clock_->End(*timed, context->native, stream->native);
    CUresult result = CUDA_SUCCESS;
    std::vector<StreamState*> busy = streams_.Busy(*context, &result);
    if (!context->orphans.empty()) {
      all->Expect();
      if (!streams_.Fence(*context, reached, &result)) reached(result);
      continue;
    }
    // Nothing is told to the client: no point is needed but those that are not passed yet.
    for (StreamState* stream : busy) {
      all->Expect();
      if (streams_.AddPoint(*stream, reached) != CUDA_SUCCESS) reached(CUDA_SUCCESS);
    }
  }
  all->Reach(CUDA_SUCCESS);
}

void Contexts::FenceFrees(ContextState& context) {
  if (context.noted_epoch <= context.fenced_epoch) return;
  context.fenced_epoch = context.noted_epoch;
  auto frees = std::make_shared<std::vector<std::function<void()>>>(std::move(context.noted_frees));
  context.noted_frees.clear();
  ContextState* of = &context;
  auto passed = [this, of, epoch = context.noted_epoch, frees](CUresult) {
    for (std::function<void()>& free : *frees) free();
    uint64_t before = of->freed_epoch.load();
    if (before >= epoch) return;
    of->freed_epoch.store(epoch);
    freed_(of->slot, epoch);
  };
  MakeCurrent(&context);
  CUresult result = CUDA_SUCCESS;
  if (!streams_.Fence(context, passed, &result)) passed(result);
}

void Contexts::FenceNotedFrees() {
  for (uint16_t slot : dirty_) {
    ContextState* context = slots_[slot];
    if (context != nullptr && context->native != nullptr) FenceFrees(*context);
  }
  dirty_.clear();
}

void Contexts::NoteFree(ContextState& context, uint64_t epoch, std::function<void()> free) {
  if (context.noted_epoch == context.fenced_epoch) dirty_.push_back(context.slot);
  context.noted_epoch = epoch;
  if (free) context.noted_frees.push_back(std::move(free));
}

}  // namespace farcall::server
