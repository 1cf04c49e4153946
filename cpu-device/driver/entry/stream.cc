// SPDX-License-Identifier: Apache-2.0
// Streams and the callbacks in them.
#include "cpu-device/driver/state/stream.h"

#include <algorithm>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/graph.h"
#include "cpu-device/driver/state/op.h"

namespace farcall::cpu_device {
namespace {

// The stream a call names; a default stream is the current context's.
CUresult Enter(CUstream handle, std::shared_ptr<Stream>* stream) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  *stream = context->FindStream(handle);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult Create(CUstream* out, unsigned flags, int priority) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0) return CUDA_ERROR_INVALID_VALUE;
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *out = context->CreateStream(flags, priority)->handle();
  return CUDA_SUCCESS;
}

CUresult Destroy(CUstream handle) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(handle);
  if (stream != nullptr && stream->capture() != nullptr) AbandonCapture(*stream);
  return context->DestroyStream(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return Create(stream, flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return Create(stream, flags, priority);
}
CUresult cuStreamDestroy(CUstream stream) {
  return Destroy(stream);
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  return Destroy(stream);
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context().device().ordinal;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = stream->context().handle();
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

CUresult cuStreamQuery(CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (stream->capture() != nullptr) return RefuseWhileCapturing(*stream);
  if (!stream->Idle()) return CUDA_ERROR_NOT_READY;
  return stream->context().sticky();
}

CUresult cuStreamSynchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (stream->capture() != nullptr) return RefuseWhileCapturing(*stream);
  // The default stream stands for the streams it synchronises with, too.
  if (stream->kind() == Stream::Kind::kLegacy)
    stream->Submit([] { return CUDA_SUCCESS; }, How::kInlineIfIdle, true);
  stream->WaitIdle();
  FlushOutput();
  return stream->context().sticky();
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user_data,
                             unsigned int flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture() != nullptr) return RefuseWhileCapturing(*stream);
  // A callback sees the context's error, so it runs in a broken one as well.
  const auto work = [handle, callback, user_data, context = &stream->context()] {
    CallbackScope inside;
    callback(handle, context->sticky(), user_data);
    return CUDA_SUCCESS;
  };
  return stream->Submit(work, How::kQueue, true);
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SubmitOp(*stream, HostOp{function, user_data}, How::kQueue);
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  Range range;
  const bool managed = TheDriver().ranges.Find(address, &range) && range.managed();
  return managed && bytes <= range.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream->attributes().Get(attribute, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                              const CUstreamAttrValue* value) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = Enter(handle, &stream)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream->attributes().Set(attribute, *value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  std::shared_ptr<Stream> source, target;
  if (const CUresult result = Enter(from, &source)) return result;
  if (const CUresult result = Enter(to, &target)) return result;
  target->attributes().CopyFrom(source->attributes());
  return CUDA_SUCCESS;
}

}  // extern "C"
