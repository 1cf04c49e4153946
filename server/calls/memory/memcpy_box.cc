// SPDX-License-Identifier: Apache-2.0
// Two- and three-dimensional copies. A host side is packed on the wire. The partner is
// client-shim/cuda/copy/memcpy_box.cc.
#include <algorithm>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/calls/memory/host_copy.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

struct Side {
  uint32_t type = CU_MEMORYTYPE_HOST;  // host, device or array
  uint64_t address = 0, pitch = 0, height = 0;
  CUarray array = nullptr;
  uint64_t x = 0, y = 0, z = 0;  // of an array: where the box begins
  bool on_host() const { return type == CU_MEMORYTYPE_HOST; }
  bool is_array() const { return type == CU_MEMORYTYPE_ARRAY; }
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

Side DecodeSide(Reader& in, uint32_t type) {
  Side side;
  side.type = type;
  side.address = in.Get<uint64_t>();
  side.pitch = in.Get<uint64_t>();
  side.height = in.Get<uint64_t>();
  if (side.is_array()) {
    side.x = side.pitch;
    side.y = side.height & 0xFFFFFFFF;
    side.z = side.height >> 32;
  }
  return side;
}

// A run of the packed bytes is, at the other end, part of a row, then whole rows of a slice, then
// part of a row, and so on.
struct Rectangle {
  uint64_t x = 0, y = 0, z = 0;  // in the box
  uint64_t width = 0, rows = 0;
  uint64_t at = 0;  // in the packed bytes
};

template <typename Visit>
CUresult ForRectangles(const Box& box, uint64_t offset, uint64_t bytes, Visit visit) {
  CUresult result = CUDA_SUCCESS;
  for (uint64_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
    uint64_t row = (offset + done) / box.width, column = (offset + done) % box.width;
    uint64_t left = bytes - done;
    Rectangle one = {column, row % box.height, row / box.height, box.width, 0, done};
    one.rows = column == 0 ? std::min(left / box.width, box.height - one.y) : 0;
    if (one.rows == 0) {
      one.width = std::min(box.width - column, left);
      one.rows = 1;
    }
    result = visit(one);
    done += one.width * one.rows;
  }
  return result;
}

uint64_t AddressOf(const Side& side, const Rectangle& one) {
  return side.address + (one.z * side.height + one.y) * side.pitch + one.x;
}

CUDA_MEMCPY2D Copy2D(const Rectangle& one) {
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = one.width;
  copy.Height = one.rows;
  return copy;
}

CUDA_MEMCPY3D Copy3D(uint64_t width, uint64_t height, uint64_t depth) {
  CUDA_MEMCPY3D copy{};
  copy.WidthInBytes = width;
  copy.Height = height;
  copy.Depth = depth;
  return copy;
}

void SetSource(CUDA_MEMCPY3D* copy, const Side& side, const Rectangle& one) {
  copy->srcMemoryType = static_cast<CUmemorytype>(side.type);
  copy->srcArray = side.array;
  copy->srcXInBytes = side.x + (side.is_array() ? one.x : 0);
  copy->srcY = side.y + (side.is_array() ? one.y : 0);
  copy->srcZ = side.z + (side.is_array() ? one.z : 0);
  if (!side.is_array()) {
    copy->srcDevice = AddressOf(side, one);
    copy->srcPitch = side.pitch;
    copy->srcHeight = side.height;
  }
}

void SetDestination(CUDA_MEMCPY3D* copy, const Side& side, const Rectangle& one) {
  copy->dstMemoryType = static_cast<CUmemorytype>(side.type);
  copy->dstArray = side.array;
  copy->dstXInBytes = side.x + (side.is_array() ? one.x : 0);
  copy->dstY = side.y + (side.is_array() ? one.y : 0);
  copy->dstZ = side.z + (side.is_array() ? one.z : 0);
  if (!side.is_array()) {
    copy->dstDevice = AddressOf(side, one);
    copy->dstPitch = side.pitch;
    copy->dstHeight = side.height;
  }
}

CUresult CopyOnDevice(ServeCall& call, const Box& box, CUstream stream) {
  CUDA_MEMCPY3D copy = Copy3D(box.width, box.height, box.depth);
  SetSource(&copy, box.source, {});
  SetDestination(&copy, box.destination, {});
  return call.api.cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult CopyIntoArray(ServeCall& call, const Side& side, const Rectangle& one,
                       const std::byte* source, CUstream stream) {
  CUDA_MEMCPY3D copy = Copy3D(one.width, one.rows, 1);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = source + one.at;
  copy.srcPitch = one.width;
  copy.srcHeight = one.rows;
  SetDestination(&copy, side, one);
  return call.api.cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult CopyFromArray(ServeCall& call, const Side& side, const Rectangle& one,
                       std::byte* destination, CUstream stream) {
  CUDA_MEMCPY3D copy = Copy3D(one.width, one.rows, 1);
  SetSource(&copy, side, one);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = destination + one.at;
  copy.dstPitch = one.width;
  copy.dstHeight = one.rows;
  return call.api.cuMemcpy3DAsync_v2(&copy, stream);
}

Status Upload(ServeCall& call, const Box& box, StreamState& stream, uint64_t bytes,
              uint64_t transfer, std::span<const std::byte> inline_bytes) {
  CopyIn copy = [&](const std::byte* source, uint64_t offset, uint64_t length) {
    return ForRectangles(box, offset, length, [&](const Rectangle& one) {
      if (box.destination.is_array())
        return CopyIntoArray(call, box.destination, one, source, stream.native);
      CUDA_MEMCPY2D rectangle = Copy2D(one);
      rectangle.srcMemoryType = CU_MEMORYTYPE_HOST;
      rectangle.srcHost = source + one.at;
      rectangle.srcPitch = one.width;
      rectangle.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      rectangle.dstDevice = AddressOf(box.destination, one);
      rectangle.dstPitch = box.destination.pitch;
      return call.api.cuMemcpy2DAsync_v2(&rectangle, stream.native);
    });
  };
  if (transfer != 0) return UploadLanded(call, stream, bytes, transfer, 0, copy);
  if (inline_bytes.size() != bytes) return call.Malformed("bytes that do not fill the box");
  return UploadInline(call, stream, inline_bytes, copy);
}

Status Download(ServeCall& call, const Box& box, StreamState& stream, uint64_t bytes,
                uint64_t transfer) {
  CopyOut copy = [&](std::byte* destination, uint64_t offset, uint64_t length) {
    return ForRectangles(box, offset, length, [&](const Rectangle& one) {
      if (box.source.is_array())
        return CopyFromArray(call, box.source, one, destination, stream.native);
      CUDA_MEMCPY2D rectangle = Copy2D(one);
      rectangle.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      rectangle.srcDevice = AddressOf(box.source, one);
      rectangle.srcPitch = box.source.pitch;
      rectangle.dstMemoryType = CU_MEMORYTYPE_HOST;
      rectangle.dstHost = destination + one.at;
      rectangle.dstPitch = one.width;
      return call.api.cuMemcpy2DAsync_v2(&rectangle, stream.native);
    });
  };
  if (transfer == 0) return ReadInline(call, stream, bytes, copy);
  return ReadInChunks(call, stream, bytes, transfer, copy);
}

// An array's handle becomes the driver's; memory must be the session's. False: malformed.
bool ResolveSide(ServeCall& call, const Box& box, Side* side) {
  if (side->on_host()) return true;
  if (side->is_array()) {
    side->array = call.Resolve<CUarray>(HandleKind::kArray, side->address);
    return true;
  }
  uint64_t extent = 0;
  if (!Extent(box, *side, &extent)) return false;
  call.ResolveAddress(side->address, extent);
  return true;
}

bool IsMemoryType(uint32_t type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

}  // namespace

Status Serve_cuMemcpy3DAsync_v2(ServeCall& call) {
  auto source_type = call.in.Get<uint32_t>();
  auto destination_type = call.in.Get<uint32_t>();
  Box box;
  box.source = DecodeSide(call.in, source_type);
  box.destination = DecodeSide(call.in, destination_type);
  box.width = call.in.Get<uint64_t>();
  box.height = call.in.Get<uint64_t>();
  box.depth = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  auto transfer = call.in.Get<uint64_t>();
  bool has_bytes = box.source.on_host() && transfer == 0;
  std::span<const std::byte> inline_bytes;
  if (has_bytes) inline_bytes = call.in.GetBytes();
  uint64_t bytes = 0;
  if (!call.in.Done() || !IsMemoryType(source_type) || !IsMemoryType(destination_type) ||
      (box.source.on_host() && box.destination.on_host()) || box.width == 0 || box.height == 0 ||
      box.depth == 0 || !Product(box.width, box.height, &bytes) ||
      !Product(bytes, box.depth, &bytes))
    return call.Malformed("body");
  for (Side* side : {&box.source, &box.destination})
    if (!ResolveSide(call, box, side)) return call.Malformed("a box that does not fit its pitch");
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) {
    bool unused = transfer != 0 && !box.destination.on_host() && box.source.on_host();
    bool failed = unused && !call.rejected() && !call.stalled;
    return failed ? SkipLanded(call, bytes, transfer, 0) : call.RejectStatus();
  }
  call.session.streams().MarkActive(*stream);
  call.session.streams().NoteWork(*stream);
  if (!box.source.on_host() && !box.destination.on_host()) {
    call.result = CopyOnDevice(call, box, stream->native);
    return {};
  }
  if (!box.destination.on_host()) return Upload(call, box, *stream, bytes, transfer, inline_bytes);
  if (call.session.streams().capturing(stream->native)) {
    call.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    call.detail = "cuMemcpy3DAsync_v2: a copy to the host cannot be captured";
    return {};
  }
  return Download(call, box, *stream, bytes, transfer);
}

}  // namespace farcall::server
