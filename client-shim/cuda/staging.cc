// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "client-shim/core/calls.h"
#include "client-shim/core/host_window.h"
#include "client-shim/cuda/settled.h"
#include "client-shim/cuda/shared_host.h"
#include "client-shim/cuda/stream.h"
#include "client/calls.h"

namespace farcall::client {

namespace {

// A piece stays in a cache of both sides; of so many one is copied while another is on its way.
constexpr uint64_t kPieceBytes = 512u << 10;
constexpr size_t kPieces = 6;

struct Piece {
  uint64_t address = 0;
  CUevent event = nullptr;  // recorded behind its copy
  std::byte* memory() const { return reinterpret_cast<std::byte*>(address); }
};

struct Staging {
  std::mutex mutex;  // of one copy at a time
  bool was_tried = false;
  uint64_t base = 0;           // 0: there is none
  Context* context = nullptr;  // whose events these are
  std::array<Piece, kPieces> pieces;
};
Staging* g_staging = new Staging;

bool MakeLocked(Staging* staging) {
  if (staging->was_tried) return staging->base != 0;
  staging->was_tried = true;
  HostWindow& window = HostAddresses();
  const uint64_t base = window.Take(kPieces * kPieceBytes);
  if (base == 0) return false;
  if (ShareHostMemory(base, kPieces * kPieceBytes, -1) != CUDA_SUCCESS) {
    window.Give(base, kPieces * kPieceBytes);
    return false;
  }
  staging->base = base;
  staging->context = CurrentContext();
  for (size_t i = 0; i < kPieces; ++i) staging->pieces[i].address = base + i * kPieceBytes;
  return true;
}

// Whether all pieces are free. *status: a failure of the context's that the look brought up.
bool TakeLocked(Staging* staging, CUresult* status) {
  *status = CUDA_SUCCESS;
  if (!MakeLocked(staging) || staging->context != CurrentContext()) return false;
  for (Piece& piece : staging->pieces) {
    // Events end with a context that is reset.
    if (FindEvent(piece.event) == nullptr &&
        Call_cuEventCreate(&piece.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
      return false;
    }
    *status = Call_cuEventQuery(piece.event);
    if (*status == CUDA_ERROR_NOT_READY) return false;
    if (*status != CUDA_SUCCESS) return true;
  }
  return true;
}

// A copy on the device, and the event behind it.
CUresult PostCopy(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes, uint64_t stream,
                  const Piece& piece) {
  FixedBody<32> body;
  body.Put<uint64_t>(dst);
  body.Put<uint64_t>(src);
  body.Put<uint64_t>(bytes);
  body.Put<uint64_t>(stream);
  const CUresult posted = PostPartsNow(CallId::cuMemcpyDtoDAsync_v2, body.bytes());
  return posted != CUDA_SUCCESS
             ? posted
             : RecordEvent(piece.event, reinterpret_cast<CUstream>(stream), CU_EVENT_RECORD_DEFAULT);
}

}  // namespace

bool UploadStaged(CUdeviceptr dst, const std::byte* src, uint64_t bytes, uint64_t stream,
                  CUresult* status) {
  std::unique_lock lock(g_staging->mutex, std::try_to_lock);
  if (!lock.owns_lock() || !TakeLocked(g_staging, status)) return false;
  uint64_t index = 0;
  for (uint64_t offset = 0; offset < bytes && *status == CUDA_SUCCESS; ++index) {
    const Piece& piece = g_staging->pieces[index % kPieces];
    const uint64_t part = std::min(bytes - offset, kPieceBytes);
    if (index >= kPieces) *status = Call_cuEventSynchronize(piece.event);
    if (*status != CUDA_SUCCESS) break;
    std::memcpy(piece.memory(), src + offset, part);
    *status = PostCopy(dst + offset, piece.address, part, stream, piece);
    offset += part;
  }
  return true;
}

bool DownloadStaged(std::byte* dst, CUdeviceptr src, uint64_t bytes, uint64_t stream,
                    CUresult* status) {
  std::unique_lock lock(g_staging->mutex, std::try_to_lock);
  if (!lock.owns_lock() || !TakeLocked(g_staging, status)) return false;
  uint64_t asked = 0, got = 0, records = 0;
  auto ask = [&](size_t index) {
    const Piece& piece = g_staging->pieces[index % kPieces];
    const uint64_t part = std::min(bytes - asked, kPieceBytes);
    *status = PostCopy(piece.address, src + asked, part, stream, piece);
    asked += part;
    records = CurrentSession()->records();
  };
  size_t asked_pieces = 0;
  while (asked < bytes && asked_pieces < kPieces && *status == CUDA_SUCCESS) ask(asked_pieces++);
  for (size_t index = 0; got < bytes && *status == CUDA_SUCCESS; ++index) {
    const Piece& piece = g_staging->pieces[index % kPieces];
    *status = Call_cuEventSynchronize(piece.event);
    if (*status != CUDA_SUCCESS) break;
    const uint64_t part = std::min(bytes - got, kPieceBytes);
    std::memcpy(dst + got, piece.memory(), part);
    got += part;
    if (asked < bytes) ask(asked_pieces++);
  }
  if (*status == CUDA_SUCCESS) NoteStreamCopied(stream, records);
  return true;
}

}  // namespace farcall::client
