// SPDX-License-Identifier: Apache-2.0
#include "server/device/event_clock.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/device/current_context.h"

namespace farcall::server {

namespace {

using quota::Ns;

constexpr double kNsPerMillisecond = 1e6;

}  // namespace

bool EventClock::CanMeasure(const DriverApi& api) {
  return api.cuEventCreate != nullptr && api.cuEventRecord != nullptr &&
         api.cuEventElapsedTime != nullptr && api.cuStreamCreate != nullptr;
}

// Null if the driver refuses: the application's next call meets the same error.
CUevent EventClock::Record(Context& state, CUstream stream) {
  CUevent event = nullptr;
  if (!state.free.empty()) {
    event = state.free.back();
    state.free.pop_back();
  } else if (api_.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
    return nullptr;
  }
  if (api_.cuEventRecord(event, stream) == CUDA_SUCCESS) return event;
  state.free.push_back(event);
  return nullptr;
}

void EventClock::Keep(Context& state, CUevent event) {
  if (event != nullptr) state.free.push_back(event);
}

void EventClock::Begin(int device, CUcontext context) {
  std::lock_guard lock(mutex_);
  Device& state = devices_[device];
  if (state.open == nullptr) {
    state.open = std::make_shared<Batch>();
    state.submitted = false;
  }
  for (const Part& part : *state.open)
    if (part.context == context) return;
  Context& own = contexts_[context];
  if (own.own == nullptr && api_.cuStreamCreate(&own.own, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    own.own = nullptr;
    return;
  }
  state.open->push_back({context, Record(own, own.own), {}});
}

void EventClock::Cancel(int device) {
  std::lock_guard lock(mutex_);
  Device& state = devices_[device];
  if (state.open == nullptr || state.submitted) return;
  const std::shared_ptr<Batch> batch = std::exchange(state.open, nullptr);
  for (const Part& part : *batch) Keep(contexts_[part.context], part.begin);
}

void EventClock::Submitted(int device) {
  std::lock_guard lock(mutex_);
  devices_[device].submitted = true;
}

std::shared_ptr<EventClock::Batch> EventClock::Close(int device) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Batch> batch = std::exchange(devices_[device].open, nullptr);
  return batch != nullptr ? batch : std::make_shared<Batch>();
}

void EventClock::End(Batch& batch, CUcontext context, CUstream stream) {
  auto part = std::find_if(batch.begin(), batch.end(),
                           [context](const Part& each) { return each.context == context; });
  if (part == batch.end()) return;  // nothing of the batch is in it
  std::lock_guard lock(mutex_);
  if (CUevent event = Record(contexts_[context], stream)) part->ends.push_back(event);
}

// Of what follows one another on the device, each nanosecond counts once: what lies before the end
// of the last batch has been counted with that.
Ns EventClock::Measure(const Part& part) {
  Context& state = contexts_[part.context];
  CurrentContext::Set(api_, part.context);
  auto between = [this](CUevent from, CUevent to) -> std::optional<double> {
    float ms = 0;
    bool known =
        from != nullptr && to != nullptr && api_.cuEventElapsedTime(&ms, from, to) == CUDA_SUCCESS;
    return known ? std::optional<double>(ms) : std::nullopt;
  };
  std::optional<double> begin = between(state.last_end, part.begin);
  CUevent from = begin && *begin < 0 ? state.last_end : part.begin;
  CUevent last = nullptr;
  double longest_ms = 0;
  for (CUevent end : part.ends) {
    std::optional<double> ms = between(from, end);
    if (ms && (last == nullptr || *ms > longest_ms)) {
      longest_ms = *ms;
      last = end;
    }
  }
  for (CUevent event : part.ends)
    if (event != last) Keep(state, event);
  // An end earlier than that of the batch before it says nothing new.
  bool is_later = last != nullptr && longest_ms > 0;
  Keep(state, part.begin);
  Keep(state, is_later ? std::exchange(state.last_end, last) : last);
  return is_later ? static_cast<Ns>(longest_ms * kNsPerMillisecond) : 0;
}

void EventClock::Reached(int device, const Batch& batch) {
  std::lock_guard lock(mutex_);
  Ns busy = 0;  // contexts of one process take turns, each seeing the others' time pass
  for (const Part& part : batch)
    if (contexts_.count(part.context) != 0) busy = std::max(busy, Measure(part));
  devices_[device].used_ns += busy;
}

Ns EventClock::used(int device) {
  std::lock_guard lock(mutex_);
  return devices_[device].used_ns;
}

void EventClock::ForgetContext(CUcontext context) {
  std::lock_guard lock(mutex_);
  contexts_.erase(context);
  for (auto& [device, state] : devices_)
    if (state.open != nullptr)
      std::erase_if(*state.open, [context](const Part& part) { return part.context == context; });
}

}  // namespace farcall::server
