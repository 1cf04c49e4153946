// SPDX-License-Identifier: Apache-2.0
// Two- and three-dimensional copies. The host's side crosses packed: gathered and scattered here.
#include <cstring>
#include <memory>
#include <vector>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/error_map.h"
#include "client-shim/cuda/objects/array.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/settled.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct Side {
  CUmemorytype type = CU_MEMORYTYPE_HOST;  // host, device or array
  uint64_t address = 0;                    // of the box's first byte; of an array, its handle
  uint64_t pitch = 0;                      // bytes from row to row
  uint64_t height = 0;                     // rows from slice to slice
  uint64_t x = 0, y = 0, z = 0;            // of an array: where the box begins
  bool on_host() const { return type == CU_MEMORYTYPE_HOST; }
  uint64_t At(uint64_t row, uint64_t slice) const {
    return address + (slice * height + row) * pitch;
  }
};

struct Box {
  Side src, dst;
  uint64_t width = 0, height = 0, depth = 0;
  uint64_t bytes() const { return width * height * depth; }
};

// From the box's first byte to behind its last; false: it wraps.
bool Extent(const Side& side, const Box& box, uint64_t* bytes) {
  uint64_t rows = 0;
  return !__builtin_mul_overflow(box.depth - 1, side.height, &rows) &&
         !__builtin_add_overflow(rows, box.height - 1, &rows) &&
         !__builtin_mul_overflow(rows, side.pitch, bytes) &&
         !__builtin_add_overflow(*bytes, box.width, bytes);
}

CUresult MakeSide(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array,
                  uint64_t x, uint64_t y, uint64_t z, uint64_t pitch, uint64_t height,
                  const Box& box, Side* side) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    const Array* found = FindArray(array);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *side = {CU_MEMORYTYPE_ARRAY, found->handle, 0, 0, x, y, z};
    constexpr uint64_t kMax = uint64_t{1} << 32;  // a record has 32 bits for y and z
    bool holds =
        y < kMax && z < kMax && HoldsBox(*found, x, y, z, box.width, box.height, box.depth);
    return holds ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
  bool on_device = SideOnDevice(type, base);
  side->type = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  side->pitch = pitch == 0 ? box.width + x : pitch;
  side->height = height == 0 ? box.height + y : height;
  if (base == 0 || side->pitch < box.width || side->height < box.height)
    return CUDA_ERROR_INVALID_VALUE;
  side->address = base + (z * side->height + y) * side->pitch + x;
  uint64_t extent = 0;
  if (!Extent(*side, box, &extent)) return CUDA_ERROR_INVALID_VALUE;
  // The host's, and the device has it at the same address.
  if (!on_device && IsMirroredRange(reinterpret_cast<const void*>(side->address), extent))
    side->type = CU_MEMORYTYPE_DEVICE;
  return on_device && !IsDeviceRange(side->address, extent) ? CUDA_ERROR_INVALID_VALUE
                                                            : CUDA_SUCCESS;
}

// Groups of whole rows of one slice, each a piece at most where a row allows it.
template <typename Visit>
CUresult ForPieces(const Box& box, Visit visit) {
  uint64_t rows = kCopyPieceBytes / box.width;
  if (rows == 0) rows = 1;
  CUresult status = CUDA_SUCCESS;
  for (uint64_t z = 0; z < box.depth; ++z) {
    for (uint64_t y = 0; y < box.height && status == CUDA_SUCCESS; y += rows) {
      uint64_t count = box.height - y < rows ? box.height - y : rows;
      bool last = z + 1 == box.depth && y + count == box.height;
      status = visit(y, z, count, last);
    }
  }
  return status;
}

using Head = FixedBody<112>;

// A host's side is packed; an array's names the element row where the piece begins.
void PutSide(Head* body, const Side& side, uint64_t width, uint64_t y, uint64_t z, uint64_t rows) {
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    body->Put<uint64_t>(side.address);
    body->Put<uint64_t>(side.x);
    body->Put<uint64_t>((side.y + y) | (side.z + z) << 32);
    return;
  }
  body->Put<uint64_t>(side.on_host() ? 0 : side.At(y, z));
  body->Put<uint64_t>(side.on_host() ? width : side.pitch);
  body->Put<uint64_t>(side.on_host() ? rows : side.height);
}

// The record's fixed part for `rows` rows of one slice; the host's side is packed and has no
// address.
void PutPiece(Head* body, const Box& box, uint64_t y, uint64_t z, uint64_t rows, uint64_t stream,
              uint64_t transfer) {
  body->Put<uint32_t>(box.src.type);
  body->Put<uint32_t>(box.dst.type);
  for (const Side* side : {&box.src, &box.dst}) PutSide(body, *side, box.width, y, z, rows);
  body->Put<uint64_t>(box.width);
  body->Put<uint64_t>(rows);
  body->Put<uint64_t>(1);
  body->Put<uint64_t>(stream);
  body->Put<uint64_t>(transfer);
}

CUresult SendRecord(std::span<const std::byte> head, std::span<const std::byte> tail, bool wait) {
  return wait ? RoundTripParts(CallId::cuMemcpy3DAsync_v2, head, tail, nullptr)
              : Post(CallId::cuMemcpy3DAsync_v2, head, tail);
}

CUresult UploadBox(const Box& box, uint64_t stream, bool wait) {
  Session* session = CurrentSession();
  uint64_t extent = 0;
  const auto* source = reinterpret_cast<const void*>(box.src.address);
  if (Extent(box.src, box, &extent) && MayStillChange(source, extent)) {
    CUresult reached = AwaitStream(stream);
    if (reached != CUDA_SUCCESS) return reached;
  }
  auto packed = std::make_unique<std::byte[]>(std::max<uint64_t>(kCopyPieceBytes, box.width));
  return ForPieces(box, [&](uint64_t y, uint64_t z, uint64_t rows, bool last) {
    for (uint64_t row = 0; row < rows; ++row)
      std::memcpy(packed.get() + row * box.width,
                  reinterpret_cast<const void*>(box.src.At(y + row, z)), box.width);
    std::span<const std::byte> bytes(packed.get(), rows * box.width);
    Head head;
    if (bytes.size() <= kMaxInlineBytes) {
      PutPiece(&head, box, y, z, rows, stream, 0);
      head.Put<uint64_t>(bytes.size());
      return SendRecord(head.bytes(), bytes, wait && last);
    }
    uint64_t transfer = session->transfers().NewId();
    session->transfers().AwaitRoom(bytes.size());
    Status sent = session->link().OpenLanes();
    if (sent.ok()) sent = session->link().SendTransfer(transfer, 0, bytes, Link::Retain::kCopied);
    if (!sent.ok()) return MapSessionError(sent.code());
    PutPiece(&head, box, y, z, rows, stream, transfer);
    return SendRecord(head.bytes(), {}, wait && last);
  });
}

CUresult SettleBox(const Box& box, uint64_t stream) {
  if (!BarrierSettles(stream)) return UploadBox(box, stream, true);
  const CUresult posted = UploadBox(box, stream, false);
  return posted == CUDA_SUCCESS ? PostBarrier(stream) : posted;
}

// Everything lands packed, then goes to its rows.
CUresult Download(const Box& box, uint64_t stream) {
  Session* session = CurrentSession();
  Status opened = session->link().OpenLanes();
  if (!opened.ok()) return MapSessionError(opened.code());
  bool direct = box.dst.pitch == box.width && (box.depth == 1 || box.dst.height == box.height);
  std::unique_ptr<std::byte[]> landing(direct ? nullptr : new std::byte[box.bytes()]);
  auto* base = direct ? reinterpret_cast<std::byte*>(box.dst.address) : landing.get();
  std::vector<uint64_t> transfers;
  CUresult status = ForPieces(box, [&](uint64_t y, uint64_t z, uint64_t rows, bool last) {
    uint64_t transfer = session->transfers().NewId();
    session->transfers().Expect(transfer, base + (z * box.height + y) * box.width,
                                rows * box.width);
    transfers.push_back(transfer);
    Head head;
    PutPiece(&head, box, y, z, rows, stream, transfer);
    return SendRecord(head.bytes(), {}, last);
  });
  for (uint64_t transfer : transfers) session->transfers().Forget(transfer);
  if (status != CUDA_SUCCESS || direct) return status;
  for (uint64_t z = 0; z < box.depth; ++z) {
    for (uint64_t y = 0; y < box.height; ++y) {
      std::memcpy(reinterpret_cast<void*>(box.dst.At(y, z)),
                  base + (z * box.height + y) * box.width, box.width);
    }
  }
  return status;
}

CUresult OnDevice(const Box& box, uint64_t stream) {
  Head head;
  head.Put<uint32_t>(box.src.type);
  head.Put<uint32_t>(box.dst.type);
  for (const Side* side : {&box.src, &box.dst}) PutSide(&head, *side, box.width, 0, 0, box.height);
  head.Put<uint64_t>(box.width);
  head.Put<uint64_t>(box.height);
  head.Put<uint64_t>(box.depth);
  head.Put<uint64_t>(stream);
  head.Put<uint64_t>(0);
  return SendRecord(head.bytes(), {}, false);
}

CUresult AwaitBox(CUresult posted, const Box& box, uint64_t stream, bool sync) {
  if (box.dst.type == CU_MEMORYTYPE_ARRAY) return posted;
  if (box.src.type == CU_MEMORYTYPE_ARRAY && !sync) return posted;  // device memory
  return AwaitCopy(posted, box.dst.address, box.src.address, stream, sync);
}

CUresult OnHost(const Box& box, uint64_t stream) {
  std::byte none{};
  CUresult status = CopyOnHost(&none, &none, 1, stream);  // the stream's order
  for (uint64_t z = 0; z < box.depth && status == CUDA_SUCCESS; ++z) {
    for (uint64_t y = 0; y < box.height; ++y) {
      auto* to = reinterpret_cast<void*>(box.dst.At(y, z));
      const auto* from = reinterpret_cast<const void*>(box.src.At(y, z));
      if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memmove(to, from, box.width);
    }
  }
  return status;
}

CUresult Copy(const CUDA_MEMCPY3D& copy, CUstream hStream, bool sync) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  Box box;
  box.width = copy.WidthInBytes;
  box.height = copy.Height;
  box.depth = copy.Depth;
  uint64_t total = 0;
  if (__builtin_mul_overflow(box.width, box.height, &total) ||
      __builtin_mul_overflow(total, box.depth, &total))
    return CUDA_ERROR_INVALID_VALUE;
  if (total == 0) return CUDA_SUCCESS;
  status =
      MakeSide(copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcArray, copy.srcXInBytes,
               copy.srcY, copy.srcZ, copy.srcPitch, copy.srcHeight, box, &box.src);
  if (status != CUDA_SUCCESS) return status;
  status =
      MakeSide(copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray, copy.dstXInBytes,
               copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight, box, &box.dst);
  if (status != CUDA_SUCCESS) return status;
  const bool settle = sync && OthersLookAtUploads();
  const bool captures = Captures(FindStream(hStream));
  if (!box.src.on_host() && !box.dst.on_host()) {
    CUresult posted = OnDevice(box, stream);
    return captures ? posted : AwaitBox(posted, box, stream, sync);
  }
  if (captures) return CaptureBox(hStream, copy, sync);
  if (!box.dst.on_host() && sync) {
    status = AwaitWhatTheHostSees(stream);
    if (status != CUDA_SUCCESS) return status;
  }
  if (!box.dst.on_host()) {
    const CUresult sent = settle ? SettleBox(box, stream) : UploadBox(box, stream, false);
    return AwaitBox(sent, box, stream, sync);
  }
  if (!box.src.on_host()) return Download(box, stream);
  return OnHost(box, stream);
}

CUDA_MEMCPY3D Flat(const CUDA_MEMCPY2D& copy) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = copy.srcXInBytes;
  box.srcY = copy.srcY;
  box.srcMemoryType = copy.srcMemoryType;
  box.srcHost = copy.srcHost;
  box.srcDevice = copy.srcDevice;
  box.srcArray = copy.srcArray;
  box.srcPitch = copy.srcPitch;
  box.dstXInBytes = copy.dstXInBytes;
  box.dstY = copy.dstY;
  box.dstMemoryType = copy.dstMemoryType;
  box.dstHost = copy.dstHost;
  box.dstDevice = copy.dstDevice;
  box.dstArray = copy.dstArray;
  box.dstPitch = copy.dstPitch;
  box.WidthInBytes = copy.WidthInBytes;
  box.Height = copy.Height;
  box.Depth = 1;
  return box;
}

}  // namespace

CUresult Call_cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy, CUstream default_stream) {
  return pCopy == nullptr ? CUDA_ERROR_INVALID_VALUE : Copy(Flat(*pCopy), default_stream, true);
}

CUresult Call_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy, CUstream default_stream) {
  return pCopy == nullptr ? CUDA_ERROR_INVALID_VALUE : Copy(Flat(*pCopy), default_stream, true);
}

CUresult Call_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return pCopy == nullptr ? CUDA_ERROR_INVALID_VALUE : Copy(Flat(*pCopy), hStream, false);
}

CUresult Call_cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy, CUstream default_stream) {
  return pCopy == nullptr ? CUDA_ERROR_INVALID_VALUE : Copy(*pCopy, default_stream, true);
}

CUresult Call_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return pCopy == nullptr ? CUDA_ERROR_INVALID_VALUE : Copy(*pCopy, hStream, false);
}

}  // namespace farcall::client
