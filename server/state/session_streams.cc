// SPDX-License-Identifier: Apache-2.0
// Contexts and streams as the session tracks them: which have work, and waiting for it.
#include <algorithm>

#include "server/device/event_clock.h"
#include "server/leases/compute_gate.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

// One answer for several points: the first error, once all are reached.
class Countdown {
 public:
  Countdown(int count, std::function<void(CUresult)> done) : left_(count), done_(std::move(done)) {}
  void Expect() {
    std::lock_guard lock(mutex_);
    ++left_;
  }
  void Reach(CUresult result) {
    {
      std::lock_guard lock(mutex_);
      if (result != CUDA_SUCCESS && first_error_ == CUDA_SUCCESS) {
        first_error_ = result;
      }
      if (--left_ != 0) {
        return;
      }
    }
    done_(first_error_);
  }

 private:
  std::mutex mutex_;
  int left_;
  CUresult first_error_ = CUDA_SUCCESS;
  std::function<void(CUresult)> done_;
};

}  // namespace

ContextState& Session::MakeContext(uint16_t slot) {
  all_contexts_.push_back(std::make_unique<ContextState>());
  contexts_[slot] = all_contexts_.back().get();
  ContextState& context = *contexts_[slot];
  context.slot = slot;
  context.legacy = {NewStreamKey(), CU_STREAM_LEGACY, &context, false};
  context.legacy.is_default = true;
  return context;
}

StreamState* Session::PerThreadStream(ContextState& context, uint16_t thread, CUresult* result) {
  std::unique_ptr<StreamState>& stream = context.per_thread[thread];
  if (stream == nullptr) {
    CUstream native = nullptr;
    MakeCurrent(&context);
    CUresult created = api_.cuStreamCreate(&native, CU_STREAM_DEFAULT);
    if (created != CUDA_SUCCESS) {
      context.per_thread.erase(thread);
      if (*result == CUDA_SUCCESS) {
        *result = created;
      }
      return nullptr;
    }
    stream = std::make_unique<StreamState>(StreamState{NewStreamKey(), native, &context, false});
    stream->per_thread = true;
  }
  return stream.get();
}

void Session::MarkActive(StreamState& stream) {
  if (stream.active || stream.context == nullptr) {
    return;
  }
  stream.active = true;
  stream.context->active.push_back(&stream);
}

void Session::Orphan(StreamState& stream) {
  if (!stream.active) {
    return;
  }
  ContextState& context = *stream.context;
  std::erase(context.active, &stream);
  std::erase_if(context.orphans,
                [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); });
  // To ask a stream amid a capture would end the capture.
  if (capturing(stream.native) || api_.cuStreamQuery(stream.native) != CUDA_ERROR_NOT_READY) {
    NoteIdle(stream);
    return;
  }
  auto left = std::make_shared<Watch>();  // only its `ready` is used
  CUresult added = completion_.Add(stream.key, context.native, stream.native, false,
                                   [left](CUresult) { left->ready.store(true); });
  if (added == CUDA_SUCCESS) {
    context.orphans.push_back(left);
  }
}

std::vector<StreamState*> Session::BusyStreams(ContextState& context, CUresult* result) {
  std::vector<StreamState*> busy;
  for (StreamState* stream : context.active) {
    if (capturing(stream->native)) {
      continue;
    }
    CUresult state = api_.cuStreamQuery(stream->native);
    if (state == CUDA_ERROR_NOT_READY) {
      busy.push_back(stream);
    } else {
      stream->active = false;
      NoteIdle(*stream);
      if (state != CUDA_SUCCESS && *result == CUDA_SUCCESS) {
        *result = state;
      }
    }
  }
  std::erase_if(context.active, [](StreamState* stream) { return !stream->active; });
  std::erase_if(context.orphans,
                [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); });
  return busy;
}

bool Session::Fence(ContextState& context, std::function<void(CUresult)> done, CUresult* result) {
  std::vector<StreamState*> busy = BusyStreams(context, result);
  // Points that were passed may not have been told of, nor the bytes of copies sent.
  if (busy.empty() && context.orphans.empty() && completion_.idle()) {
    return false;
  }

  auto all = std::make_shared<Countdown>(static_cast<int>(busy.size() + 1), std::move(done));
  for (StreamState* stream : busy) {
    CUresult added = completion_.Add(stream->key, context.native, stream->native, false,
                                     [all](CUresult reached) { all->Reach(reached); });
    if (added != CUDA_SUCCESS) {
      all->Reach(added);
    }
  }
  // Orphans are waited for at a point of their own, which the last of them makes ready.
  CUresult first = *result;
  *result = CUDA_SUCCESS;
  completion_.Signal(completion_.AddManual(
      context.legacy.key, context.native,
      [this, all, first, native = context.native, orphans = context.orphans](CUresult) {
        WaitForOrphans(native, orphans, [all, first] { all->Reach(first); });
      }));
  return true;
}

// Rare: streams destroyed with work on them. Their own watches make them ready; this looks again
// behind each.
void Session::WaitForOrphans(CUcontext context, std::vector<std::shared_ptr<Watch>> orphans,
                             std::function<void()> done) {
  std::erase_if(orphans, [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); });
  if (orphans.empty()) {
    return done();
  }
  auto again = completion_.AddManual(
      NewStreamKey(), context,
      [this, context, orphans, done](CUresult) { WaitForOrphans(context, orphans, done); });
  again->ready.store(true);
}

bool Session::StartsAtOnce(const StreamState& stream) {
  // To ask a stream amid a capture, or the default stream beside one, would end the capture.
  const bool lent = options_.gate != nullptr && options_.gate->engaged();
  if (lent || captures_ != 0 || stream.context == nullptr) {
    return false;
  }
  auto is_idle = [this](const StreamState& each) {
    return api_.cuStreamQuery(each.native) == CUDA_SUCCESS;
  };
  if (!is_idle(stream)) {
    return false;
  }
  const ContextState& context = *stream.context;
  if (!stream.blocking) {
    return true;
  }
  if (!stream.is_default) {
    return is_idle(context.legacy);
  }
  return std::all_of(context.orphans.begin(), context.orphans.end(),
                     [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); }) &&
         std::all_of(context.active.begin(), context.active.end(), [&](const StreamState* each) {
           return each == &stream || !each->blocking || is_idle(*each);
         });
}

bool Session::FenceStream(StreamState& stream, std::function<void(CUresult)> done,
                          CUresult* result) {
  CUresult state = api_.cuStreamQuery(stream.native);
  if (state == CUDA_ERROR_NOT_READY) {
    *result =
        completion_.Add(stream.key, stream.context->native, stream.native, false, std::move(done));
    return *result == CUDA_SUCCESS;
  }
  if (completion_.idle()) {
    NoteIdle(stream);
    *result = state;
    return false;
  }
  completion_.Signal(
      completion_.AddManual(stream.key, stream.context->native,
                            [done = std::move(done), state](CUresult) { done(state); }));
  return true;
}

void Session::FenceDevice(int device, std::function<void()> done) {
  std::vector<ContextState*> contexts;
  for (const std::unique_ptr<ContextState>& context : all_contexts_) {
    bool may_work = !context->active.empty() || !context->orphans.empty();
    if (context->device == device && may_work && IsLive(*context)) {
      contexts.push_back(context.get());
    }
  }
  std::shared_ptr<EventClock::Batch> timed;
  if (options_.clock != nullptr) {
    timed = options_.clock->Close(device);
  }
  auto all =
      std::make_shared<Countdown>(1, [this, device, timed, done = std::move(done)](CUresult) {
        if (timed != nullptr) {
          options_.clock->Reached(device, *timed);
        }
        done();
      });
  const auto reached = [all](CUresult) { all->Reach(CUDA_SUCCESS); };  // errors: the application's
  for (ContextState* context : contexts) {
    MakeCurrent(context);
    for (StreamState* stream : context->active) {
      if (timed != nullptr && !capturing(stream->native)) {
        options_.clock->End(*timed, context->native, stream->native);
      }
    }
    CUresult result = CUDA_SUCCESS;
    std::vector<StreamState*> busy = BusyStreams(*context, &result);
    if (!context->orphans.empty()) {
      all->Expect();
      if (!Fence(*context, reached, &result)) {
        reached(result);
      }
      continue;
    }
    // Nothing is told to the client: no point is needed but those that are not passed yet.
    for (StreamState* stream : busy) {
      all->Expect();
      if (completion_.Add(stream->key, context->native, stream->native, false, reached) !=
          CUDA_SUCCESS) {
        reached(CUDA_SUCCESS);
      }
    }
  }
  all->Reach(CUDA_SUCCESS);
}

}  // namespace farcall::server
