// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/streams.h"

#include <algorithm>
#include <utility>

#include "server/device/current_context.h"
#include "server/leases/compute_gate.h"
#include "server/state/queues/countdown.h"

namespace farcall::server {

StreamState* Streams::PerThread(ContextState& context, uint16_t thread, CUresult* result) {
  std::unique_ptr<StreamState>& stream = context.per_thread[thread];
  if (stream == nullptr) {
    CUstream native = nullptr;
    CurrentContext::Set(api_, context.native);
    CUresult created = api_.cuStreamCreate(&native, CU_STREAM_DEFAULT);
    if (created != CUDA_SUCCESS) {
      context.per_thread.erase(thread);
      if (*result == CUDA_SUCCESS) *result = created;
      return nullptr;
    }
    stream = std::make_unique<StreamState>(StreamState{NewKey(), native, &context, false});
    stream->per_thread = true;
  }
  return stream.get();
}

void Streams::MarkActive(StreamState& stream) {
  if (stream.active || stream.context == nullptr) return;
  stream.active = true;
  stream.context->active.push_back(&stream);
}

void Streams::Orphan(StreamState& stream) {
  if (!stream.active) return;
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
  if (added == CUDA_SUCCESS) context.orphans.push_back(left);
}

std::vector<StreamState*> Streams::Busy(ContextState& context, CUresult* result) {
  std::vector<StreamState*> busy;
  for (StreamState* stream : context.active) {
    if (capturing(stream->native)) continue;
    CUresult state = api_.cuStreamQuery(stream->native);
    if (state == CUDA_ERROR_NOT_READY) {
      busy.push_back(stream);
    } else {
      stream->active = false;
      NoteIdle(*stream);
      if (state != CUDA_SUCCESS && *result == CUDA_SUCCESS) *result = state;
    }
  }
  std::erase_if(context.active, [](StreamState* stream) { return !stream->active; });
  std::erase_if(context.orphans,
                [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); });
  return busy;
}

bool Streams::Fence(ContextState& context, std::function<void(CUresult)> done, CUresult* result) {
  std::vector<StreamState*> busy = Busy(context, result);
  // Points that were passed may not have been told of, nor the bytes of copies sent.
  if (busy.empty() && context.orphans.empty() && completion_.idle()) return false;

  auto all = std::make_shared<Countdown>(static_cast<int>(busy.size() + 1), std::move(done));
  for (StreamState* stream : busy) {
    CUresult added = AddPoint(*stream, [all](CUresult reached) { all->Reach(reached); });
    if (added != CUDA_SUCCESS) all->Reach(added);
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
void Streams::WaitForOrphans(CUcontext context, std::vector<std::shared_ptr<Watch>> orphans,
                             std::function<void()> done) {
  std::erase_if(orphans, [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); });
  if (orphans.empty()) return done();
  auto again =
      completion_.AddManual(NewKey(), context,
                            [this, context, orphans = std::move(orphans), done = std::move(done)](
                                CUresult) { WaitForOrphans(context, orphans, done); });
  again->ready.store(true);
}

bool Streams::StartsAtOnce(const StreamState& stream) {
  // To ask a stream amid a capture, or the default stream beside one, would end the capture.
  const bool lent = gate_ != nullptr && gate_->engaged();
  if (lent || captures_ != 0 || stream.context == nullptr) return false;
  auto is_idle = [this](const StreamState& each) {
    return api_.cuStreamQuery(each.native) == CUDA_SUCCESS;
  };
  if (!is_idle(stream)) return false;
  const ContextState& context = *stream.context;
  if (!stream.blocking) return true;
  if (!stream.is_default) return is_idle(context.legacy);
  return std::all_of(context.orphans.begin(), context.orphans.end(),
                     [](const std::shared_ptr<Watch>& watch) { return watch->ready.load(); }) &&
         std::all_of(context.active.begin(), context.active.end(), [&](const StreamState* each) {
           return each == &stream || !each->blocking || is_idle(*each);
         });
}

CUresult Streams::AddPoint(const StreamState& stream, std::function<void(CUresult)> reached) {
  return completion_.Add(stream.key, stream.context->native, stream.native, false,
                         std::move(reached));
}

bool Streams::FenceStream(StreamState& stream, std::function<void(CUresult)> done,
                          CUresult* result) {
  CUresult state = api_.cuStreamQuery(stream.native);
  if (state == CUDA_ERROR_NOT_READY) {
    *result = AddPoint(stream, std::move(done));
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

void Streams::NoteCapture(CallCapture capture, CUresult result) {
  switch (capture) {
    case CallCapture::kBegins:
      captures_ += result == CUDA_SUCCESS ? 1 : 0;
      return;
    case CallCapture::kEnds:
      // An invalid capture is over as well.
      captures_ -= result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                           result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                       ? 1
                       : 0;
      return;
    default:
      return;
  }
}

bool Streams::capturing(CUstream stream) {
  if (captures_.load() <= 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return api_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace farcall::server
