// SPDX-License-Identifier: Apache-2.0
// CUDA IPC: a handle's bytes carry the token under which the server lends memory or an event to the
// other processes of this vGPU.
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "client-shim/core/calls.h"
#include "client-shim/core/devices.h"
#include "client-shim/core/log.h"
#include "client-shim/core/reservations.h"
#include "client-shim/cuda/memory.h"
#include "client-shim/cuda/stream.h"
#include "client/calls.h"

namespace farcall::client {

namespace {

constexpr uint32_t kMemoryMagic = 0x4D434346, kEventMagic = 0x45434346;  // "FCCM", "FCCE"

struct MemoryHandle {
  uint32_t magic = kMemoryMagic;
  uint32_t reserved = 0;
  ShareToken token;
  uint64_t span_bytes = 0;  // of the chunks the allocation lies in
  uint64_t offset = 0;      // of the allocation in them
  uint64_t bytes = 0;       // of the allocation
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

CUresult AskToOpen(const MemoryHandle& handle, uint64_t range, int* device) {
  FixedBody<32> body;
  PutToken(&body, handle.token);
  body.Put<uint64_t>(range);
  body.Put<uint64_t>(handle.span_bytes);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuIpcOpenMemHandle_v2, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  *device = DeviceOfServer(outputs.Get<int32_t>());
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

CUresult OpenMemory(const MemoryHandle& handle, uint64_t* pointer) {
  uint64_t range = 0;
  {
    std::lock_guard lock(UserRanges().mutex());
    if (!UserRanges().has_window()) return NotSupported(CallId::cuIpcOpenMemHandle_v2);
    range = UserRanges().Reserve(handle.span_bytes, kChunkGranularityBytes, 0, true);
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
  g_ipc->opened[allocation.base] = {handle.token, range, handle.span_bytes, 1};
  *pointer = allocation.base;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  Allocation found;
  if (pHandle == nullptr || !Memory().Find(dptr, &found) || found.base != dptr ||
      found.kind != MemoryKind::kDevice || found.owner != 0 || found.mapped_handle != 0 ||
      found.borrowed || found.pool != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (found.charged_bytes == 0) return NotSupported(CallId::cuIpcGetMemHandle);
  FixedBody<8> body;
  body.Put<uint64_t>(dptr);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuIpcGetMemHandle, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  MemoryHandle handle;
  ReadToken(outputs, &handle.token);
  handle.span_bytes = outputs.Get<uint64_t>();
  handle.offset = outputs.Get<uint64_t>();
  handle.bytes = found.bytes;
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  {
    std::lock_guard lock(g_ipc->mutex);
    g_ipc->own.insert(handle.token);
  }
  std::memset(pHandle, 0, sizeof(*pHandle));
  std::memcpy(pHandle, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult Call_cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  MemoryHandle given;
  std::memcpy(&given, &handle, sizeof(given));
  if (pdptr == nullptr || (Flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (given.magic != kMemoryMagic || given.span_bytes == 0 ||
      given.span_bytes % kChunkGranularityBytes != 0 || given.bytes == 0 ||
      given.offset >= given.span_bytes || given.bytes > given.span_bytes - given.offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::lock_guard lock(g_ipc->mutex);
  if (g_ipc->own.count(given.token) != 0) return CUDA_ERROR_INVALID_CONTEXT;
  for (auto& [pointer, opened] : g_ipc->opened) {
    if (opened.token == given.token) {
      ++opened.count;
      *pdptr = pointer;
      return CUDA_SUCCESS;
    }
  }
  uint64_t pointer = 0;
  CUresult status = OpenMemory(given, &pointer);
  if (status == CUDA_SUCCESS) *pdptr = pointer;
  return status;
}

CUresult Call_cuIpcCloseMemHandle(CUdeviceptr dptr) {
  std::lock_guard lock(g_ipc->mutex);
  auto found = g_ipc->opened.find(dptr);
  if (found == g_ipc->opened.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.count != 0) return CUDA_SUCCESS;
  Opened opened = found->second;
  g_ipc->opened.erase(found);
  Allocation removed;
  Memory().Remove(dptr, &removed);
  CUresult status = AskToClose(opened.range);
  FreeRange(opened.range, opened.range_bytes);
  return status;
}

CUresult Call_cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
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
  EventHandle given;
  std::memcpy(&given, &handle, sizeof(given));
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
