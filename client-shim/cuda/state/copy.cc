// SPDX-License-Identifier: Apache-2.0
// Downloads, and copies on one side only. Uploads: upload.cc.
#include "client-shim/cuda/state/copy.h"

#include <cstring>
#include <vector>

#include "client-shim/core/memory/reservations.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/error_map.h"
#include "client-shim/cuda/objects/moved_bytes.h"
#include "client-shim/cuda/state/across.h"
#include "client-shim/cuda/state/green_context.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/settled.h"
#include "client-shim/cuda/state/stream.h"

namespace farcall::client {

namespace {

CUresult OpenLanes(Session* session) {
  Status opened = session->link().OpenLanes();
  return opened.ok() ? CUDA_SUCCESS : MapSessionError(opened.code());
}

CUresult ReceiveInline(void* dst, CUdeviceptr src, size_t bytes, uint64_t stream) {
  FixedBody<32> body;
  body.Put<uint64_t>(src);
  body.Put<uint64_t>(bytes);
  body.Put<uint64_t>(stream);
  body.Put<uint64_t>(0);
  Reply reply;
  uint64_t records = CurrentSession()->records();
  CUresult status = RoundTripParts(CallId::cuMemcpyDtoHAsync_v2, body.bytes(), {}, &reply);
  if (status != CUDA_SUCCESS) return status;
  NoteStreamCopied(stream, records);
  Reader outputs = reply.outputs();
  std::span<const std::byte> got = outputs.GetBytes();
  if (!outputs.Done() || got.size() != bytes) return CUDA_ERROR_UNKNOWN;
  std::memcpy(dst, got.data(), bytes);
  return CUDA_SUCCESS;
}

struct Landings {
  explicit Landings(Transfers& of) : transfers(of) {}
  // What a failed piece left open: the memory is the caller's again.
  ~Landings() {
    for (uint64_t id : ids) transfers.Forget(id);
  }
  Transfers& transfers;
  std::vector<uint64_t> ids;
};

CUresult ReceiveBulk(std::byte* dst, CUdeviceptr src, size_t bytes, uint64_t stream, bool wait) {
  Session* session = CurrentSession();
  const CopyStep step(wait ? bytes : 0, "copying from the device", &Link::Counters::chunk_bytes_in);
  CUresult status = OpenLanes(session);
  Landings landings(session->transfers());
  for (uint64_t offset = 0; offset < bytes && status == CUDA_SUCCESS; offset += kCopyPieceBytes) {
    uint64_t piece = bytes - offset < kCopyPieceBytes ? bytes - offset : kCopyPieceBytes;
    uint64_t transfer = session->transfers().NewId();
    session->transfers().Expect(transfer, dst + offset, piece);
    if (wait) landings.ids.push_back(transfer);
    FixedBody<32> body;
    body.Put<uint64_t>(src + offset);
    body.Put<uint64_t>(piece);
    body.Put<uint64_t>(stream);
    body.Put<uint64_t>(transfer);
    if (wait && offset + piece == bytes) {
      uint64_t records = session->records();
      status = RoundTripParts(CallId::cuMemcpyDtoHAsync_v2, body.bytes(), {}, nullptr);
      if (status == CUDA_SUCCESS) NoteStreamCopied(stream, records);
      return status;
    }
    Record record = MakeRecord(CallId::cuMemcpyDtoHAsync_v2, body.bytes());
    status = PostRecord(record, {.transfer = transfer});
  }
  if (status != CUDA_SUCCESS) return status;
  Context* context = CurrentContext();
  return wait || context == nullptr ? status : TakeLateError(context);
}

}  // namespace

bool IsVacant(const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  return ServerOfAddress(at) != nullptr &&
         !Memory().FindIf(at, [](const Allocation&) { return true; });
}

CUresult CopyToHost(void* dst, CUdeviceptr src, size_t bytes, uint64_t stream, bool wait) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (VisibleDeviceCount() > 1) [[unlikely]] {
    CUresult status = CUDA_SUCCESS;
    Context* elsewhere = AwaitElsewhere(src, stream, &status);
    if (status != CUDA_SUCCESS) return status;
    if (elsewhere != nullptr) {
      const ContextScope scope(elsewhere);
      return CopyToHost(dst, src, bytes, kLegacyStream, true);
    }
  }
  src = DeviceAddress(src);
  if (dst == nullptr || IsVacant(dst) || !IsDeviceRange(src, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  auto place = reinterpret_cast<CUdeviceptr>(dst);
  if (IsMirroredRange(dst, bytes) || DeviceAddress(place) != place) {
    CUresult status = CopyOnDevice(place, src, bytes, stream);
    return wait && status == CUDA_SUCCESS ? AwaitStream(stream) : status;
  }
  CUresult status = wait && bytes <= kMaxInlineBytes
                        ? ReceiveInline(dst, src, bytes, stream)
                        : ReceiveBulk(static_cast<std::byte*>(dst), src, bytes, stream, wait);
  if (wait && status == CUDA_SUCCESS) PullMirrors();
  return status;
}

CUresult CopyOnDevice(CUdeviceptr dst, CUdeviceptr src, size_t bytes, uint64_t stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  CUresult status = CUDA_SUCCESS;
  if (IsAcross(dst, src, stream, &status)) return CopyAcross(dst, src, bytes, stream);
  if (status != CUDA_SUCCESS) return status;
  src = DeviceAddress(src);
  dst = DeviceAddress(dst);
  if (!IsDeviceRange(src, bytes) || !IsDeviceRange(dst, bytes)) return CUDA_ERROR_INVALID_VALUE;
  FixedBody<32> body;
  body.Put<uint64_t>(dst);
  body.Put<uint64_t>(src);
  body.Put<uint64_t>(bytes);
  body.Put<uint64_t>(stream);
  return Post(CallId::cuMemcpyDtoDAsync_v2, body.bytes());
}

CUresult AwaitCopy(CUresult posted, CUdeviceptr dst, CUdeviceptr src, uint64_t stream, bool sync) {
  if (posted != CUDA_SUCCESS) return posted;
  // The device reads mapped memory when the stream gets there; the program may write it again now.
  const bool reads_mapped = sync && IsMappedHost(src);
  const bool host_looks = IsHostReadable(dst) && (sync || (IsHostMemory(dst) && IsHostMemory(src)));
  return reads_mapped || host_looks ? AwaitStream(stream) : posted;
}

CUresult CopyOnHost(void* dst, const void* src, size_t bytes, uint64_t stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (dst == nullptr || src == nullptr || IsVacant(dst) || IsVacant(src))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = AwaitStream(stream);
  if (status == CUDA_SUCCESS) std::memmove(dst, src, bytes);
  return status;
}

}  // namespace farcall::client
