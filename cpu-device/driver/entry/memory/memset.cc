// SPDX-License-Identifier: Apache-2.0
// Memset, in every width, shape and variant of stream and synchrony.
#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/op.h"

namespace farcall::cpu_device {
namespace {

constexpr CUstream kLegacy = nullptr;

CUresult Set(CUstream handle, const MemsetOp& op, bool sync) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (op.width == 0 || op.height == 0) return CUDA_SUCCESS;
  constexpr uint64_t kLimit = 1ull << 40;
  if (op.width > kLimit || op.height > kLimit || op.pitch > kLimit || op.dst % op.element != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t row = op.width * op.element;
  if (op.height > 1 && (op.pitch < row || op.pitch % op.element != 0))
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t bytes = (op.height - 1) * op.pitch + row;
  if (!TheDriver().ranges.Accessible(op.dst, bytes, context->device().ordinal, true))
    return CUDA_ERROR_INVALID_VALUE;
  // As on a GPU, a memset of device memory does not hold up the host; one of host memory does.
  Range range;
  const bool wait = sync && TheDriver().ranges.Find(op.dst, &range) && range.on_host();
  const bool refuse = sync && stream->capture() != nullptr;
  return SubmitOp(*stream, op, wait || refuse ? How::kWait : How::kInlineIfIdle);
}

MemsetOp Row(CUdeviceptr dst, uint32_t value, uint32_t element, size_t count) {
  return {dst, 0, value, element, count, 1};
}

MemsetOp Box(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t element, size_t width,
             size_t height) {
  return {dst, pitch, value, element, width, height};
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
  return Set(kLegacy, Row(dst, value, 1, count), true);
}
CUresult cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t count) {
  return Set(CU_STREAM_PER_THREAD, Row(dst, value, 1, count), true);
}
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return Set(stream, Row(dst, value, 1, count), false);
}
CUresult cuMemsetD8Async_ptsz(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return Set(Ptsz(stream), Row(dst, value, 1, count), false);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return Set(kLegacy, Box(dst, pitch, value, 1, width, height), true);
}
CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                              size_t height) {
  return Set(CU_STREAM_PER_THREAD, Box(dst, pitch, value, 1, width, height), true);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return Set(stream, Box(dst, pitch, value, 1, width, height), false);
}
CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
                                size_t height, CUstream stream) {
  return Set(Ptsz(stream), Box(dst, pitch, value, 1, width, height), false);
}

CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count) {
  return Set(kLegacy, Row(dst, value, 2, count), true);
}
CUresult cuMemsetD16_v2_ptds(CUdeviceptr dst, unsigned short value, size_t count) {
  return Set(CU_STREAM_PER_THREAD, Row(dst, value, 2, count), true);
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  return Set(stream, Row(dst, value, 2, count), false);
}
CUresult cuMemsetD16Async_ptsz(CUdeviceptr dst, unsigned short value, size_t count,
                               CUstream stream) {
  return Set(Ptsz(stream), Row(dst, value, 2, count), false);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return Set(kLegacy, Box(dst, pitch, value, 2, width, height), true);
}
CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                               size_t height) {
  return Set(CU_STREAM_PER_THREAD, Box(dst, pitch, value, 2, width, height), true);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return Set(stream, Box(dst, pitch, value, 2, width, height), false);
}
CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
                                 size_t height, CUstream stream) {
  return Set(Ptsz(stream), Box(dst, pitch, value, 2, width, height), false);
}

CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t count) {
  return Set(kLegacy, Row(dst, value, 4, count), true);
}
CUresult cuMemsetD32_v2_ptds(CUdeviceptr dst, unsigned int value, size_t count) {
  return Set(CU_STREAM_PER_THREAD, Row(dst, value, 4, count), true);
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream) {
  return Set(stream, Row(dst, value, 4, count), false);
}
CUresult cuMemsetD32Async_ptsz(CUdeviceptr dst, unsigned int value, size_t count, CUstream stream) {
  return Set(Ptsz(stream), Row(dst, value, 4, count), false);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return Set(kLegacy, Box(dst, pitch, value, 4, width, height), true);
}
CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                               size_t height) {
  return Set(CU_STREAM_PER_THREAD, Box(dst, pitch, value, 4, width, height), true);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return Set(stream, Box(dst, pitch, value, 4, width, height), false);
}
CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
                                 size_t height, CUstream stream) {
  return Set(Ptsz(stream), Box(dst, pitch, value, 4, width, height), false);
}

}  // extern "C"
