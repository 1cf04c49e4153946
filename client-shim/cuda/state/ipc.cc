// SPDX-License-Identifier: Apache-2.0
// CUDA IPC: a handle's bytes carry the token under which the server lends memory or an event to the
// other processes of this vGPU.
#include "client-shim/cuda/state/ipc.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "client-shim/core/memory/reservations.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/settled.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr uint32_t kMemoryMagic = 0x4D434346, kEventMagic = 0x45434346;  // "FCCM", "FCCE"

struct MemoryHandle {
  uint32_t magic = kMemoryMagic;
  uint32_t reserved = 0;
  LentMemory memory;
  uint64_t more = 0;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));
struct EventHandle {
  uint32_t magic = kEventMagic;
  uint32_t reserved = 0;
  ShareToken token;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

// Another process's memory, mapped here once however often it is opened.
struct Opened {
  ShareToken token;
  uint64_t range = 0;  // reserved for it
  uint64_t range_bytes = 0;
  LentBy by = LentBy::kHandle;
  unsigned count = 1;
};

struct State {
  std::mutex mutex;                   // also held while a handle is opened or closed
  std::map<uint64_t, Opened> opened;  // by the pointer given out
  std::set<ShareToken> own;
};
State* g_ipc = new State;

bool ReadToken(Reader& outputs, ShareToken* token) {
  token->high = outputs.Get<uint64_t>();
  token->low = outputs.Get<uint64_t>();
  return outputs.ok();
}

void PutToken(Writer* body, const ShareToken& token) {
  body->Put<uint64_t>(token.high);
  body->Put<uint64_t>(token.low);
}

CUresult AskToOpen(const LentMemory& handle, uint64_t range, int* device) {
  FixedBody<32> body;
  PutToken(&body, handle.token);
  body.Put<uint64_t>(range);
  body.Put<uint64_t>(handle.span_bytes);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuIpcOpenMemHandle_v2, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  *device = DeviceOfServer(CurrentSession(), outputs.Get<int32_t>());
  return outputs.Done() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult AskToClose(uint64_t range) {
  FixedBody<8> body;
  body.Put<uint64_t>(range);
  return RoundTrip(CallId::cuIpcCloseMemHandle, body.bytes(), nullptr);
}

// The server waited for what may use the memory: the addresses are free at once.
void FreeRange(uint64_t range, uint64_t bytes) {
  std::lock_guard lock(UserRanges().mutex());
  UserRanges().Free(range, bytes, true);
}

CUresult MapLent(const LentMemory& handle, LentBy by, uint64_t* pointer) {
  uint64_t range = 0;
  {
    std::lock_guard lock(UserRanges().mutex());
    if (!UserRanges().has_window(CurrentServer()))
      return NotSupported(CallId::cuIpcOpenMemHandle_v2);
    range =
        UserRanges().Reserve(handle.span_bytes, kChunkGranularityBytes, 0, true, CurrentServer());
  }
  if (range == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  int device = -1;
  CUresult status = AskToOpen(handle, range, &device);
  if (status == CUDA_SUCCESS && device < 0) {  // CUDA_VISIBLE_DEVICES hides it here
    AskToClose(range);
    status = CUDA_ERROR_INVALID_DEVICE;
  }
  if (status != CUDA_SUCCESS) {
    FreeRange(range, handle.span_bytes);
    return status;
  }
  Allocation allocation;
  allocation.base = range + handle.offset;
  allocation.bytes = handle.bytes;
  allocation.device = device;
  allocation.server_device = FindDevice(device)->server_index;
  allocation.context = CurrentContext();
  allocation.id = NewBufferId();
  allocation.borrowed = true;
  Memory().Insert(allocation);
  g_ipc->opened[allocation.base] = {handle.token, range, handle.span_bytes, by, 1};
  *pointer = allocation.base;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Lend(const Allocation& allocation, LentMemory* lent) {
  NoteShared();
  FixedBody<8> body;
  body.Put<uint64_t>(allocation.base);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuIpcGetMemHandle, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  ReadToken(outputs, &lent->token);
  lent->span_bytes = outputs.Get<uint64_t>();
  lent->offset = outputs.Get<uint64_t>();
  lent->bytes = allocation.bytes;
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  std::lock_guard lock(g_ipc->mutex);
  g_ipc->own.insert(lent->token);
  return CUDA_SUCCESS;
}

CUresult OpenLent(const LentMemory& lent, LentBy by, CUdeviceptr* pointer) {
  NoteShared();
  if (lent.span_bytes == 0 || lent.span_bytes % kChunkGranularityBytes != 0 || lent.bytes == 0 ||
      lent.offset >= lent.span_bytes || lent.bytes > lent.span_bytes - lent.offset)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_ipc->mutex);
  if (g_ipc->own.count(lent.token) != 0)
    return by == LentBy::kHandle ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
  for (auto& [opened_at, opened] : g_ipc->opened) {
    if (opened.token == lent.token && opened.by == by) {
      ++opened.count;
      *pointer = opened_at;
      return CUDA_SUCCESS;
    }
  }
  uint64_t made = 0;
  CUresult status = MapLent(lent, by, &made);
  if (status == CUDA_SUCCESS) *pointer = made;
  return status;
}

bool CloseLent(CUdeviceptr pointer, LentBy by, CUresult* status) {
  std::lock_guard lock(g_ipc->mutex);
  auto found = g_ipc->opened.find(pointer);
  if (found == g_ipc->opened.end() || found->second.by != by) return false;
  *status = CUDA_SUCCESS;
  if (--found->second.count != 0) return true;
  Opened opened = found->second;
  g_ipc->opened.erase(found);
  Allocation removed;
  Memory().Remove(pointer, &removed);
  *status = AskToClose(opened.range);
  FreeRange(opened.range, opened.range_bytes);
  return true;
}

CUresult Call_cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  Allocation found;
  if (pHandle == nullptr || !Memory().Find(dptr, &found) || found.base != dptr ||
      found.kind != MemoryKind::kDevice || found.owner != 0 || found.mapped_handle != 0 ||
      found.borrowed || found.pool != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (found.charged_bytes == 0) return NotSupported(CallId::cuIpcGetMemHandle);
  MemoryHandle handle;
  CUresult status = Lend(found, &handle.memory);
  if (status != CUDA_SUCCESS) return status;
  std::memset(pHandle, 0, sizeof(*pHandle));
  std::memcpy(pHandle, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult Call_cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  MemoryHandle given;
  std::memcpy(static_cast<void*>(&given), &handle, sizeof(given));
  if (pdptr == nullptr || (Flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != 0 ||
      given.magic != kMemoryMagic)
    return CUDA_ERROR_INVALID_VALUE;
  return OpenLent(given.memory, LentBy::kHandle, pdptr);
}

CUresult Call_cuIpcCloseMemHandle(CUdeviceptr dptr) {
  CUresult status = CUDA_SUCCESS;
  return CloseLent(dptr, LentBy::kHandle, &status) ? status : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  NoteShared();
  Event* found = FindEvent(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pHandle == nullptr || (found->flags & CU_EVENT_INTERPROCESS) == 0 || found->foreign)
    return CUDA_ERROR_INVALID_VALUE;
  FixedBody<8> body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(event));
  Reply reply;
  CUresult status = RoundTrip(CallId::cuIpcGetEventHandle, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  EventHandle handle;
  ReadToken(outputs, &handle.token);
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  std::memset(pHandle, 0, sizeof(*pHandle));
  std::memcpy(pHandle, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult Call_cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  NoteShared();
  EventHandle given;
  std::memcpy(static_cast<void*>(&given), &handle, sizeof(given));
  if (phEvent == nullptr || given.magic != kEventMagic) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  uint64_t made = NewHandle(HandleKind::kEvent, &status);
  if (status != CUDA_SUCCESS) return status;
  FixedBody<24> body;
  body.Put<uint64_t>(made);
  PutToken(&body, given.token);
  status = RoundTrip(CallId::cuIpcOpenEventHandle, body.bytes(), nullptr);
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kEvent, made);
    return status;
  }
  CUevent event = reinterpret_cast<CUevent>(made);
  NewEvent(event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  FindEvent(event)->foreign = true;
  *phEvent = event;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
