// SPDX-License-Identifier: Apache-2.0
// Two- and three-dimensional copies. A host side is packed on the wire. The partner is
// client-shim/cuda/memcpy_box.cc.
#include <algorithm>

#include "server/context.h"
#include "server/driver_api.h"
#include "server/handwritten.h"
#include "server/host_copy.h"
#include "server/session.h"

namespace farcall::server {

namespace {

struct Side {
  bool on_device = false;
  uint64_t address = 0, pitch = 0, height = 0;
};

struct Box {
  Side source, destination;
  uint64_t width = 0, height = 0, depth = 0;
};

bool Product(uint64_t a, uint64_t b, uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

// Bytes from the box's first to behind its last on a side; false if that wraps.
bool Extent(const Box& box, const Side& side, uint64_t* bytes) {
  uint64_t rows = 0;
  return side.pitch >= box.width && (box.depth == 1 || side.height >= box.height) &&
         Product(box.depth - 1, side.height, &rows) &&
         !__builtin_add_overflow(rows, box.height - 1, &rows) && Product(rows, side.pitch, bytes) &&
         !__builtin_add_overflow(*bytes, box.width, bytes);
}

Side DecodeSide(Reader& in, bool on_device) {
  Side side;
  side.on_device = on_device;
  side.address = in.Get<uint64_t>();
  side.pitch = in.Get<uint64_t>();
  side.height = in.Get<uint64_t>();
  return side;
}

// A run of the packed bytes is, on the device, part of a row, then whole rows of a slice, then part
// of a row, and so on.
template <typename Visit>
CUresult ForRectangles(const Box& box, const Side& side, uint64_t offset, uint64_t bytes,
                       Visit visit) {
  CUresult result = CUDA_SUCCESS;
  for (uint64_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
    uint64_t row = (offset + done) / box.width, column = (offset + done) % box.width;
    uint64_t left = bytes - done;
    uint64_t z = row / box.height, y = row % box.height;
    uint64_t rows = column == 0 ? std::min(left / box.width, box.height - y) : 0;
    uint64_t width = rows == 0 ? std::min(box.width - column, left) : box.width;
    if (rows == 0) {
      rows = 1;
    }
    uint64_t address = side.address + (z * side.height + y) * side.pitch + column;
    result = visit(address, width, rows, done);
    done += width * rows;
  }
  return result;
}

CUDA_MEMCPY2D Rectangle(uint64_t width, uint64_t rows) {
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = width;
  copy.Height = rows;
  return copy;
}

CUresult CopyOnDevice(ServeCall& call, const Box& box, CUstream stream) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = box.source.address;
  copy.srcPitch = box.source.pitch;
  copy.srcHeight = box.source.height;
  copy.dstDevice = box.destination.address;
  copy.dstPitch = box.destination.pitch;
  copy.dstHeight = box.destination.height;
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  copy.Depth = box.depth;
  return call.api.cuMemcpy3DAsync_v2(&copy, stream);
}

Status Upload(ServeCall& call, const Box& box, StreamState& stream, uint64_t bytes,
              uint64_t transfer, std::span<const std::byte> inline_bytes) {
  CopyIn copy = [&](const std::byte* source, uint64_t offset, uint64_t length) {
    return ForRectangles(box, box.destination, offset, length,
                         [&](uint64_t address, uint64_t width, uint64_t rows, uint64_t at) {
                           CUDA_MEMCPY2D rectangle = Rectangle(width, rows);
                           rectangle.srcMemoryType = CU_MEMORYTYPE_HOST;
                           rectangle.srcHost = source + at;
                           rectangle.srcPitch = width;
                           rectangle.dstMemoryType = CU_MEMORYTYPE_DEVICE;
                           rectangle.dstDevice = address;
                           rectangle.dstPitch = box.destination.pitch;
                           return call.api.cuMemcpy2DAsync_v2(&rectangle, stream.native);
                         });
  };
  if (transfer != 0) {
    return UploadLanded(call, stream, bytes, transfer, 0, copy);
  }
  if (inline_bytes.size() != bytes) {
    return call.Malformed("bytes that do not fill the box");
  }
  return UploadInline(call, stream, inline_bytes, copy);
}

Status Download(ServeCall& call, const Box& box, StreamState& stream, uint64_t bytes,
                uint64_t transfer) {
  CopyOut copy = [&](std::byte* destination, uint64_t offset, uint64_t length) {
    return ForRectangles(box, box.source, offset, length,
                         [&](uint64_t address, uint64_t width, uint64_t rows, uint64_t at) {
                           CUDA_MEMCPY2D rectangle = Rectangle(width, rows);
                           rectangle.srcMemoryType = CU_MEMORYTYPE_DEVICE;
                           rectangle.srcDevice = address;
                           rectangle.srcPitch = box.source.pitch;
                           rectangle.dstMemoryType = CU_MEMORYTYPE_HOST;
                           rectangle.dstHost = destination + at;
                           rectangle.dstPitch = width;
                           return call.api.cuMemcpy2DAsync_v2(&rectangle, stream.native);
                         });
  };
  if (transfer == 0) {
    return ReadInline(call, stream, bytes, copy);
  }
  return ReadInChunks(call, stream, bytes, transfer, copy);
}

}  // namespace

Status Serve_cuMemcpy3DAsync_v2(ServeCall& call) {
  auto source_type = call.in.Get<uint32_t>();
  auto destination_type = call.in.Get<uint32_t>();
  Box box;
  box.source = DecodeSide(call.in, source_type == CU_MEMORYTYPE_DEVICE);
  box.destination = DecodeSide(call.in, destination_type == CU_MEMORYTYPE_DEVICE);
  box.width = call.in.Get<uint64_t>();
  box.height = call.in.Get<uint64_t>();
  box.depth = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  auto transfer = call.in.Get<uint64_t>();
  bool has_bytes = !box.source.on_device && transfer == 0;
  std::span<const std::byte> inline_bytes;
  if (has_bytes) {
    inline_bytes = call.in.GetBytes();
  }
  uint64_t bytes = 0;
  if (!call.in.Done() || (!box.source.on_device && !box.destination.on_device) || box.width == 0 ||
      box.height == 0 || box.depth == 0 || !Product(box.width, box.height, &bytes) ||
      !Product(bytes, box.depth, &bytes)) {
    return call.Malformed("body");
  }
  for (const Side* side : {&box.source, &box.destination}) {
    uint64_t extent = 0;
    if (!side->on_device) {
      continue;
    }
    if (!Extent(box, *side, &extent)) {
      return call.Malformed("a box that does not fit its pitch");
    }
    call.ResolveAddress(side->address, extent);
  }
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) {
    bool unused = transfer != 0 && box.destination.on_device && !box.source.on_device;
    bool failed = unused && !call.lie() && !call.stalled;
    return failed ? SkipLanded(call, bytes, transfer, 0) : call.LieStatus();
  }
  call.session.MarkActive(*stream);
  if (box.source.on_device && box.destination.on_device) {
    call.result = CopyOnDevice(call, box, stream->native);
    return {};
  }
  if (box.destination.on_device) {
    return Upload(call, box, *stream, bytes, transfer, inline_bytes);
  }
  if (call.session.capturing(stream->native)) {
    call.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    call.detail = "cuMemcpy3DAsync_v2: a copy to the host cannot be captured";
    return {};
  }
  return Download(call, box, *stream, bytes, transfer);
}

}  // namespace farcall::server
