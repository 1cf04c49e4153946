// SPDX-License-Identifier: Apache-2.0
// The session's life and its link: frames in, output out. Records are served in session_serve.cc.
#include "server/session/session.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proto/call_id.h"
#include "server/leases/compute_gate.h"
#include "server/library/library_desk.h"
#include "server/library/library_memory.h"
#include "server/session/current_context.h"
#include "server/session/event_clock.h"

namespace farcall::server {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

LinkOptions OptionsOfLink(const SessionOptions& options) {
  LinkOptions link;
  link.is_client = false;
  link.lanes = options.lanes;
  link.grace_ms = options.grace_ms;
  link.heartbeat_ms = options.heartbeat_ms;
  link.spin_us = options.spin_us;
  return link;
}

}  // namespace

Session::Session(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker)
    : api_(api),
      options_(options),
      link_(Link::Create(*this, OptionsOfLink(options))),
      outbox_(*link_),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      broker_(broker),
      memory_(api, broker),
      user_memory_(api, broker),
      mirrors_(api, broker),
      landing_(
          api, options.landing_slots, options.max_landing_heap_bytes, [this] { Wake(); },
          [this](uint64_t bytes) {
            Builder body;
            body.Put<uint64_t>(bytes);
            outbox_.Push(SessionCall::kUsed, body.bytes());
          }),
      readback_(api, kMaxChunkBytes, options.readback_slots, 8),
      small_readback_(api, kMaxInlineBytes, 256, 16),
      images_(options.image_folder, options.image_keeper),
      libraries_(std::make_unique<LibraryDesk>(api)),
      contexts_(UINT16_MAX + 1),
      completion_(api,
                  [this] {
                    outbox_.Flush();
                    Wake();
                  }),
      helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      memory_helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      library_helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      toolchain_helper_([this] {
        outbox_.Flush();
        Wake();
      }),
      nvml_helper_([] {}) {
  completion_.OnReached([this](uint64_t stream_key, uint64_t order) {
    if (mirrors_.bytes() != 0) {
      mirror_work_.Reached(stream_key, order);
    }
  });
}

Session::~Session() {
  EndHostCalls();
  if (options_.swap != nullptr) {
    options_.swap->Stop();
  }
  landing_.Stop();
  nvml_helper_.Stop();
  leaving_.store(true);
  library_helper_.Stop();
  toolchain_helper_.Stop();
  helper_.Stop();
  memory_helper_.Stop();
  completion_.Stop();
  link_.reset();
  DeleteExtras();
  if (guard_.bytes != 0) {
    api_.cuMemAddressFree(guard_.base, guard_.bytes);
  }
  if (wake_fd_ >= 0) {
    close(wake_fd_);
  }
}

int Session::ReserveWindow(const std::vector<Window>& offers) {
  int taken = memory_.ReserveWindow(offers);
  if (taken >= 0) {
    user_memory_.SetWindow(ReservationHalf(memory_.window()));
  }
  return taken;
}

bool Session::MayReach(uint64_t address, uint64_t bytes) const {
  if (memory_.window().Contains(address, bytes) || OwnsMemory(address, bytes) ||
      LibraryMemory::Holds(address, bytes)) {
    return true;
  }
  std::lock_guard lock(guard_mutex_);
  return guard_.Contains(address, bytes);
}

uint64_t Session::GuardAddress(uint64_t address) {
  constexpr uint64_t kGuardBytes = uint64_t{1} << 30, kPageBytes = 4096;
  std::lock_guard lock(guard_mutex_);
  CUdeviceptr base = 0;
  if (guard_.bytes == 0 && api_.cuMemAddressReserve != nullptr &&
      api_.cuMemAddressReserve(&base, kGuardBytes, 0, 0, 0) == CUDA_SUCCESS) {
    guard_ = {base, kGuardBytes};
  }
  return guard_.bytes == 0 ? 0 : guard_.base + address % kPageBytes;
}

void Session::DeleteExtras() {
  for (uint8_t number = 1; number <= static_cast<uint8_t>(HandleKind::kLast); ++number) {
    auto kind = static_cast<HandleKind>(number);
    table(kind).ForEachLive(
        [kind](uint32_t, uint16_t, void*, void* extra) { DeleteExtra(kind, extra); });
  }
  for (auto [kind, extra] : buried_) {
    DeleteExtra(kind, extra);
  }
  DeleteReplaced();
}

void Session::Wake() {
  uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Session::Stop(const Status& why) {
  {
    std::lock_guard lock(end_mutex_);
    if (stop_requested_) {
      return;
    }
    stop_request_ = why;
    stop_requested_ = true;
  }
  Wake();
}

Status Session::Run() {
  // The client applies the rules of capture modes; no thread of ours may break a capture by a
  // housekeeping call.
  if (api_.cuThreadExchangeStreamCaptureMode != nullptr) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    api_.cuThreadExchangeStreamCaptureMode(&mode);
  }
  Status status;
  while (!ended_ && !stop_requested_) {
    SpinForCompletions();
    auto deadline = NextDeadline();
    if (backlog_full()) {
      pollfd wake{wake_fd_, POLLIN, 0};
      poll(&wake, 1, 100);
    } else {
      status = link_->Pump(deadline, wake_fd_);
      if (!status.ok() && status.code() != Code::kTimeout) {
        break;
      }
    }
    uint64_t drained;
    (void)!read(wake_fd_, &drained, sizeof(drained));
    status = ServeBacklog();
    if (!status.ok()) {
      break;
    }
    ServeGate();
    if (options_.swap != nullptr) {
      options_.swap->Serve(*this);
    }
  }
  Status reason = status;
  {
    std::lock_guard lock(end_mutex_);
    if (stop_requested_) {
      reason = stop_request_;
    } else if (!end_reason_.ok()) {
      reason = end_reason_;
    }
  }
  if (!ended_) {
    outbox_.Flush();
    link_->Close(reason);  // says goodbye with it
  }
  return reason;
}

Clock::time_point Session::NextDeadline() const {
  quota::Ns at = ComputeGate::kNever;
  if (options_.gate != nullptr && options_.gate->engaged()) {
    at = options_.gate->ServeAt();
  }
  if (options_.swap != nullptr) {
    at = std::min(at, options_.swap->ServeAt());
  }
  auto deadline = Clock::now() + milliseconds(1000);
  return at == ComputeGate::kNever
             ? deadline
             : std::min(deadline, Clock::time_point(std::chrono::nanoseconds(at)));
}

// A reply is often a few microseconds away: looking here saves the hand-over to the polling thread.
// Where it is not, as beside long kernels, that thread looks alone.
void Session::SpinForCompletions() {
  if (completion_.idle()) {
    return;
  }
  bool all_reached = Spin(spin_, [this] {
    completion_.Poll(false);
    return completion_.idle();
  });
  if (all_reached) {
    return;
  }
  if (std::exchange(kicked_order_, completion_.last_order()) != completion_.last_order()) {
    completion_.Kick();
  }
}

Status Session::OnFrame(const FrameView& frame) {
  if (stop_requested_) {
    return {};
  }
  if (!backlog_.empty()) {
    backlog_.push_back({{frame.records.begin(), frame.records.end()}, 0, frame.header.chunks_sent});
    backlog_bytes_ += frame.records.size();
    return {};
  }
  size_t served_bytes = 0;
  Status status = ServeRecords(frame.records, frame.header.chunks_sent, &served_bytes);
  if (!status.ok()) {
    Stop(status);  // Run says goodbye, then closes
    return {};
  }
  if (served_bytes < frame.records.size()) {
    auto rest = frame.records.subspan(served_bytes);
    backlog_.push_back({{rest.begin(), rest.end()}, 0, frame.header.chunks_sent});
    backlog_bytes_ += rest.size();
  }
  EndOfFrame();
  return {};
}

void Session::EndOfFrame() {
  for (uint16_t slot : dirty_contexts_) {
    ContextState* context = contexts_[slot];
    if (context != nullptr && context->native != nullptr) {
      FenceFrees(*context);
    }
  }
  dirty_contexts_.clear();
  ServeGate();
  outbox_.Flush();
}

std::span<std::byte> Session::ChunkDestination(const ChunkHeader& header) {
  return landing_.Destination(header);
}

void Session::OnChunk(const ChunkHeader& header) {
  landing_.Landed(header);
}

void Session::OnDetached(const Status&) {}

void Session::OnReattached() {}

void Session::OnClosed(const Status& why) {
  {
    std::lock_guard lock(end_mutex_);
    if (end_reason_.ok()) {
      end_reason_ = why;
    }
    ended_ = true;
  }
  landing_.Stop();
  EndHostCalls();
  Wake();
}

void Session::DrainOutput() {
  if (options_.output_fd < 0) {
    return;
  }
  std::fflush(stdout);
  std::lock_guard lock(output_mutex_);
  std::byte buffer[8192];
  while (true) {
    ssize_t got = read(options_.output_fd, buffer, sizeof(buffer));
    if (got <= 0) {
      return;
    }
    Builder body;
    body.PutBytes(buffer, static_cast<size_t>(got));
    outbox_.Push(SessionCall::kOutput, body.bytes());
  }
}

// A driver empties the buffer of device printf at its own blocking waits, which the worker does not
// use.
void Session::FlushPrintf(CUcontext context) {
  if (prints_) {
    CurrentContext::Set(api_, context);
    // Any stream's wait empties it: one that never has work does not make us wait.
    std::unique_lock lock(flush_mutex_);
    auto [stream, is_new] = flush_streams_.try_emplace(context, nullptr);
    const CUresult made =
        is_new ? api_.cuStreamCreate(&stream->second, CU_STREAM_NON_BLOCKING) : CUDA_SUCCESS;
    CUstream idle = stream->second;
    if (made != CUDA_SUCCESS) {
      flush_streams_.erase(stream);
      idle = nullptr;
    }
    lock.unlock();
    if (idle != nullptr) {
      api_.cuStreamSynchronize(idle);
    } else if (made >= CUDA_ERROR_ILLEGAL_ADDRESS && made <= CUDA_ERROR_LAUNCH_FAILED) {
      api_.cuCtxSynchronize();  // the context is broken: nothing in it is waited for
    }
    DrainOutput();
  }
}

void Session::ForgetContext(CUcontext context) {
  libraries_->ForgetContext(context);
  if (options_.swap != nullptr) {
    options_.swap->ForgetContext(context);
  }
  completion_.ForgetContext(context);
  if (options_.clock != nullptr) {
    options_.clock->ForgetContext(context);
  }
  landing_.slots().ForgetContext(context);
  readback_.ForgetContext(context);
  small_readback_.ForgetContext(context);
  std::lock_guard lock(flush_mutex_);
  flush_streams_.erase(context);
}

std::byte* Session::KeepBytes(std::span<const std::byte> bytes) {
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(copy));
  return kept_.back().get();
}

void Session::Keep(std::shared_ptr<void> object) {
  std::lock_guard lock(kept_mutex_);
  kept_objects_.push_back(std::move(object));
}

void Session::Bury(HandleKind kind, void* extra) {
  if (kind == HandleKind::kEvent && extra != nullptr) {
    static_cast<EventState*>(extra)->EndTimes();
  }
  std::lock_guard lock(kept_mutex_);
  if (extra != nullptr) {
    buried_.emplace_back(kind, extra);
  }
}

void Session::NoteReplaced(HandleKind kind, void* extra) {
  if (kind == HandleKind::kEvent && extra != nullptr) {
    static_cast<EventState*>(extra)->EndTimes();
  }
  std::lock_guard lock(kept_mutex_);
  if (extra != nullptr) {
    replaced_.emplace_back(kind, extra);
    ++replaced_count_;
  }
}

void Session::DeleteReplaced() {
  std::lock_guard lock(kept_mutex_);
  for (auto [kind, extra] : std::exchange(replaced_, {})) {
    DeleteExtra(kind, extra);
  }
  replaced_count_ = 0;
}

bool Session::capturing(CUstream stream) {
  if (captures_.load() <= 0) {
    return false;
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return api_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace farcall::server
