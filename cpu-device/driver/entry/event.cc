// SPDX-License-Identifier: Apache-2.0
// Events.
#include "cpu-device/driver/state/event.h"

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/graph.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUevent handle, std::shared_ptr<Event>* event) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *event = TheDriver().events.Find(handle);
  return *event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Enter(CUevent handle, CUstream stream_handle, std::shared_ptr<Event>* event,
               std::shared_ptr<Stream>* stream) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *event = TheDriver().events.Find(handle);
  *stream = context->FindStream(stream_handle);
  return *event == nullptr || *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Destroy(CUevent handle) {
  if (const CUresult result = CheckInitialized()) return result;
  return TheDriver().events.Take(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  std::shared_ptr<Event> start, end;
  if (const CUresult result = Enter(start_handle, &start)) return result;
  if (const CUresult result = Enter(end_handle, &end)) return result;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto from = start->latest(), to = end->latest();
  if (!start->timed() || !end->timed() || from == nullptr || to == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!from->done() || !to->done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<SharedEvent> shared;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    if ((flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
    shared = SharedEvent::Create();
    if (shared == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto event = std::make_shared<Event>(*context, flags, std::move(shared));
  *out = event->handle();
  TheDriver().events.Add(std::move(event));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  return Destroy(event);
}
CUresult cuEventDestroy_v2(CUevent event) {
  return Destroy(event);
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, stream_handle, &event, &stream)) return result;
  if (&event->context() != &stream->context()) return CUDA_ERROR_INVALID_HANDLE;
  return stream->capture() != nullptr ? CaptureRecord(*stream, *event) : event->Record(*stream);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  if (flags == CU_EVENT_RECORD_DEFAULT) return cuEventRecord(event, stream);
  std::shared_ptr<Event> found;
  std::shared_ptr<Stream> on;
  if (flags != CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = Enter(event, stream, &found, &on)) return result;
  // Outside a capture the flag means nothing; inside, it makes a node.
  if (on->capture() == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (&found->context() != &on->context()) return CUDA_ERROR_INVALID_HANDLE;
  return CaptureEvent(*on, std::move(found), true);
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags) {
  std::shared_ptr<Event> event;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, stream_handle, &event, &stream)) return result;
  if (flags != CU_EVENT_WAIT_DEFAULT && flags != CU_EVENT_WAIT_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_EVENT_WAIT_EXTERNAL && stream->capture() != nullptr)
    return CaptureEvent(*stream, std::move(event), false);
  return WaitOrCapture(*stream, *event);
}

CUresult cuEventQuery(CUevent handle) {
  const std::shared_ptr<Event> event = TheDriver().events.Find(handle);  // no context is needed
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<CUgraphNode> nodes;
  if (event->captured(&nodes) != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  const auto latest = event->latest();
  const bool pending = event->shared() != nullptr
                           ? !event->shared()->reached(event->shared()->recorded())
                           : latest != nullptr && !latest->done();
  if (pending) return CUDA_ERROR_NOT_READY;
  return event->context().sticky();
}

CUresult cuEventSynchronize(CUevent handle) {
  std::shared_ptr<Event> event;
  if (const CUresult result = Enter(handle, &event)) return result;
  std::vector<CUgraphNode> nodes;
  if (event->captured(&nodes) != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->shared() != nullptr)
    event->shared()->Wait(event->shared()->recorded());
  else if (const auto latest = event->latest())
    latest->Wait();
  FlushOutput();
  return event->context().sticky();
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  std::shared_ptr<Event> event;
  if (const CUresult result = Enter(handle, &event)) return result;
  if (out == nullptr || event->shared() == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = event->shared()->handle();
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<SharedEvent> shared = SharedEvent::Open(handle);
  if (shared == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>(*context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS,
                                       std::move(shared));
  *out = event->handle();
  TheDriver().events.Add(std::move(event));
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return Elapsed(milliseconds, start, end);
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return Elapsed(milliseconds, start, end);
}

}  // extern "C"
