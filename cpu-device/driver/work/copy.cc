// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/work/copy.h"

#include <cstring>
#include <memory>
#include <vector>

#include "cpu-device/driver/memory/array.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

// Pageable sources up to this size are captured at the call; larger ones are waited for.
constexpr uint64_t kStagedBytes = 64 << 10;

uint64_t Span(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice) {
  return width == 0 || height == 0 || depth == 0
             ? 0
             : ((depth - 1) * slice + (height - 1)) * pitch + width;
}

struct Side {
  uint64_t address;
  uint64_t bytes;
  bool known = false;  // memory the device knows, so not pageable
};

bool Check(Side* side, End end, int device, bool write) {
  Range range;
  if (side->bytes == 0) return true;
  side->known = TheDriver().ranges.Find(side->address, &range);
  if (end == End::kDevice && !side->known) return false;
  if (!side->known) return side->address != 0;
  // Host memory next to a registered range may reach beyond it.
  if (range.on_host() && end != End::kDevice) return true;
  return TheDriver().ranges.Accessible(side->address, side->bytes, device, write);
}

// Keeps the source's bytes as they are now, for a copy that runs later.
CUresult SubmitStaged(Stream& stream, const CopyOp& copy) {
  auto staged = std::make_shared<std::vector<uint8_t>>(copy.width);
  memcpy(staged->data(), reinterpret_cast<const void*>(copy.src), copy.width);
  CopyOp later = copy;
  later.src = reinterpret_cast<uint64_t>(staged->data());
  const int device = stream.context().device().ordinal;
  return stream.Submit([staged, later, device] { return Execute(later, device); },
                       How::kInlineIfIdle, /*always=*/false, Share::kNone);
}

uint64_t HostAddress(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

bool EndOf(CUmemorytype type, CUdeviceptr device, const void* host, uint64_t* address, End* end) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      *address = HostAddress(host);
      *end = End::kHost;
      return true;
    case CU_MEMORYTYPE_DEVICE:
      *address = device;
      *end = End::kDevice;
      return true;
    case CU_MEMORYTYPE_UNIFIED:
      *address = device;
      *end = End::kUnified;
      return true;
    default:
      return false;
  }
}

CUresult ArrayEnd(CUarray handle, uint64_t x, uint64_t y, uint64_t z, const CopyOp& op,
                  uint64_t* address, uint64_t* pitch, uint64_t* height) {
  const auto array = Arrays().Find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pitch = array->pitch;
  *height = array->rows();
  return BoxInArray(*array, x, y, z, op.width, op.height, op.depth, address)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult SubmitCopy(CUstream handle, const CopyOp& copy, End dst, End src, bool sync) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int device = context->device().ordinal;
  Side to{copy.dst, Span(copy.width, copy.height, copy.depth, copy.dst_pitch, copy.dst_height)};
  Side from{copy.src, Span(copy.width, copy.height, copy.depth, copy.src_pitch, copy.src_height)};
  if (!Check(&to, dst, device, true) || !Check(&from, src, device, false))
    return CUDA_ERROR_INVALID_VALUE;
  if (to.bytes == 0) return CUDA_SUCCESS;
  if (stream->capture() != nullptr) return SubmitOp(*stream, copy, sync ? How::kWait : How::kQueue);
  if (sync) {
    const CUresult result = SubmitOp(*stream, copy, How::kWait);
    FlushOutput();
    return result;
  }
  // Pageable memory is the caller's again when the call returns.
  if (!to.known) return SubmitOp(*stream, copy, How::kWait);
  if (!from.known) {
    const bool small = copy.height == 1 && copy.depth == 1 && copy.width <= kStagedBytes;
    return small ? SubmitStaged(*stream, copy) : SubmitOp(*stream, copy, How::kWait);
  }
  return SubmitOp(*stream, copy, How::kQueue);
}

CUresult FromMemcpy2D(const CUDA_MEMCPY2D* copy, CopyOp* op, End* dst, End* src) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = copy->srcXInBytes;
  wide.srcY = copy->srcY;
  wide.srcMemoryType = copy->srcMemoryType;
  wide.srcHost = copy->srcHost;
  wide.srcDevice = copy->srcDevice;
  wide.srcArray = copy->srcArray;
  wide.srcPitch = copy->srcPitch;
  wide.dstXInBytes = copy->dstXInBytes;
  wide.dstY = copy->dstY;
  wide.dstMemoryType = copy->dstMemoryType;
  wide.dstHost = copy->dstHost;
  wide.dstDevice = copy->dstDevice;
  wide.dstArray = copy->dstArray;
  wide.dstPitch = copy->dstPitch;
  wide.WidthInBytes = copy->WidthInBytes;
  wide.Height = copy->Height;
  wide.Depth = 1;
  return FromMemcpy3D(&wide, op, dst, src);
}

CUresult FromMemcpy3D(const CUDA_MEMCPY3D* copy, CopyOp* op, End* dst, End* src) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool src_array = copy->srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool dst_array = copy->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if ((!src_array && !EndOf(copy->srcMemoryType, copy->srcDevice, copy->srcHost, &op->src, src)) ||
      (!dst_array && !EndOf(copy->dstMemoryType, copy->dstDevice, copy->dstHost, &op->dst, dst)))
    return CUDA_ERROR_INVALID_VALUE;
  // A pitch or height of 0 stands for the box's own; sizes that overflow are nobody's memory.
  constexpr uint64_t kLimit = 1ull << 40;
  for (uint64_t value :
       {copy->WidthInBytes, copy->Height, copy->Depth, copy->srcPitch, copy->dstPitch,
        copy->srcHeight, copy->dstHeight, copy->srcXInBytes, copy->dstXInBytes})
    if (value > kLimit) return CUDA_ERROR_INVALID_VALUE;
  op->width = copy->WidthInBytes;
  op->height = copy->Height;
  op->depth = copy->Depth;
  op->src_pitch = copy->srcPitch != 0 ? copy->srcPitch : op->width;
  op->dst_pitch = copy->dstPitch != 0 ? copy->dstPitch : op->width;
  op->src_height = copy->srcHeight != 0 ? copy->srcHeight : op->height;
  op->dst_height = copy->dstHeight != 0 ? copy->dstHeight : op->height;
  if (src_array) {
    *src = End::kDevice;
    if (const CUresult result = ArrayEnd(copy->srcArray, copy->srcXInBytes, copy->srcY, copy->srcZ,
                                         *op, &op->src, &op->src_pitch, &op->src_height))
      return result;
  }
  if (dst_array) {
    *dst = End::kDevice;
    if (const CUresult result = ArrayEnd(copy->dstArray, copy->dstXInBytes, copy->dstY, copy->dstZ,
                                         *op, &op->dst, &op->dst_pitch, &op->dst_height))
      return result;
  }
  if ((op->height > 1 || op->depth > 1) && (op->src_pitch < op->width || op->dst_pitch < op->width))
    return CUDA_ERROR_INVALID_VALUE;
  if (op->depth > 1 && (op->src_height < op->height || op->dst_height < op->height))
    return CUDA_ERROR_INVALID_VALUE;
  if (!src_array)
    op->src += (copy->srcZ * op->src_height + copy->srcY) * op->src_pitch + copy->srcXInBytes;
  if (!dst_array)
    op->dst += (copy->dstZ * op->dst_height + copy->dstY) * op->dst_pitch + copy->dstXInBytes;
  return CUDA_SUCCESS;
}

}  // namespace farcall::cpu_device
