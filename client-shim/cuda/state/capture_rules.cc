// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/capture_rules.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "client-shim/core/session/session_face.h"
#include "client-shim/core/session/thread_state.h"

namespace farcall::client {

namespace {

struct Capture {
  uint64_t id = 0;
  Stream* origin = nullptr;
  uint16_t thread = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t graph = 0;
  bool owned = true;
  std::vector<Stream*> streams;
};

// Few at a time, so a list does. Leaked.
struct CaptureList {
  std::mutex mutex;
  uint64_t last_id = 0;
  std::vector<std::unique_ptr<Capture>> captures;
};
CaptureList* g_list = new CaptureList;
std::atomic<int> g_active{0};

Capture* FindLocked(uint64_t id) {
  for (auto& capture : g_list->captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

void AddLocked(Capture* capture, Stream* stream) {
  stream->capture_id.store(capture->id);
  stream->capture_graph.store(capture->graph);
  stream->capture.store(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  stream->context->captures.fetch_add(1);
  capture->streams.push_back(stream);
}

void InvalidateLocked(Capture* capture) {
  for (Stream* stream : capture->streams)
    stream->capture.store(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

// CUDA's rule for a potentially unsafe call: a thread in relaxed mode may; one's own capture
// forbids it unless it was begun relaxed; another thread's forbids it if that capture and this
// thread are both in global mode.
bool Forbids(const Capture& capture, const ThreadState* self) {
  if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == self->slot) return true;
  return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         self->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

}  // namespace

void BeginCapture(Stream* origin, CUstreamCaptureMode mode, uint64_t graph, bool owned) {
  std::lock_guard lock(g_list->mutex);
  auto capture = std::make_unique<Capture>();
  capture->id = ++g_list->last_id;
  capture->origin = origin;
  capture->thread = Self()->slot;
  capture->mode = mode;
  capture->graph = graph;
  capture->owned = owned;
  AddLocked(capture.get(), origin);
  g_list->captures.push_back(std::move(capture));
  g_active.fetch_add(1);
}

void JoinCapture(Stream* stream, Stream* of) {
  std::lock_guard lock(g_list->mutex);
  Capture* capture = FindLocked(of->capture_id.load());
  if (capture != nullptr) AddLocked(capture, stream);
}

CUresult RefuseOn(Stream* stream) {
  std::lock_guard lock(g_list->mutex);
  Capture* capture = FindLocked(stream->capture_id.load());
  if (capture != nullptr) InvalidateLocked(capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

bool OwnsGraph(const Stream* stream) {
  std::lock_guard lock(g_list->mutex);
  Capture* capture = FindLocked(stream->capture_id.load());
  return capture == nullptr || capture->owned;
}

CUresult MayEndCapture(const Stream* origin) {
  std::lock_guard lock(g_list->mutex);
  Capture* capture = FindLocked(origin->capture_id.load());
  if (!Captures(origin) || capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != origin) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  bool other_thread =
      capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != Self()->slot;
  return other_thread ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD : CUDA_SUCCESS;
}

bool LeaveCapture(Stream* stream) {
  std::lock_guard lock(g_list->mutex);
  Capture* capture = FindLocked(stream->capture_id.load());
  if (capture == nullptr || capture->origin == stream) return false;
  std::erase(capture->streams, stream);
  stream->capture.store(CU_STREAM_CAPTURE_STATUS_NONE);
  stream->context->captures.fetch_sub(1);
  return true;
}

bool EndCapture(Stream* origin, bool* owned) {
  std::lock_guard lock(g_list->mutex);
  uint64_t id = origin->capture_id.load();
  Capture* capture = FindLocked(id);
  if (capture == nullptr) return false;
  *owned = capture->owned;
  bool valid = origin->capture.load() == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  for (Stream* stream : capture->streams) {
    stream->capture.store(CU_STREAM_CAPTURE_STATUS_NONE);
    stream->context->captures.fetch_sub(1);
  }
  std::erase_if(g_list->captures, [&](const auto& each) { return each->id == id; });
  g_active.fetch_sub(1);
  return valid;
}

CUresult CheckUnsafeInCapture() {
  if (g_active.load(std::memory_order_relaxed) == 0) [[likely]]
    return CUDA_SUCCESS;
  ThreadState* self = Self();
  if (self->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(g_list->mutex);
  CUresult result = CUDA_SUCCESS;
  for (auto& capture : g_list->captures) {
    if (!Forbids(*capture, self)) continue;
    InvalidateLocked(capture.get());
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace farcall::client
