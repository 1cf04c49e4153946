// SPDX-License-Identifier: Apache-2.0
// The incoming half of a session: waiting, reading in turns, and what the server says.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <optional>

#include "client-shim/core/channel/library_objects.h"
#include "client-shim/core/connection/server_latch.h"
#include "client-shim/core/first_run.h"
#include "client-shim/core/host_functions.h"
#include "client-shim/core/memory/host_window.h"
#include "client-shim/core/memory_map.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/said_once.h"
#include "client-shim/core/report/stats.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/error_map.h"
#include "client-shim/core/session/event_state.h"
#include "client-shim/core/session/session.h"
#include "generated/proto/call_info.h"
#include "proto/records.h"

namespace farcall::client {

namespace {
// The progress thread leaves the socket to callers that come this often.
constexpr auto kStayAway = std::chrono::milliseconds(2);
constexpr auto kChunkSlice = std::chrono::milliseconds(500);

// Of a goodbye: none, and none that we know, ends the session as well.
Code CodeOf(int32_t code) {
  const bool is_known = code > 0 && code <= static_cast<int32_t>(Code::kInternal);
  return is_known ? static_cast<Code>(code) : Code::kDisconnected;
}

SaidOnce& Lacks() {
  constexpr size_t kMaxLacks = 256;
  static auto* lacks = new SaidOnce(kMaxLacks);
  return *lacks;
}

bool IsLackOfDevice(CUresult status) {
  return status == CUDA_ERROR_NOT_SUPPORTED || status == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         status == CUDA_ERROR_INVALID_PTX || status == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

// What the device cannot do is the caller's to report, and farcall doctor's to explain.
void NoteLack(uint16_t call, CUresult status) {
  if (IsLackOfDevice(status) && LogEnabled(LogLevel::kInfo) &&
      Lacks().IsNew(CallName(call) + std::to_string(status)))
    Log(LogLevel::kInfo, "%s failed on the server with %d", CallName(call), status);
}
}  // namespace

CUresult Session::WaitRecord(const Record& record, Reply* reply) {
  if (ended_.load(std::memory_order_acquire) != 0) return ended();
  Waiter waiter;
  waiter.reply = reply;
  {
    std::lock_guard sending(send_mutex_);
    std::unique_ptr<FrameBuffer> last;
    {
      std::lock_guard lock(batch_mutex_);
      AppendLocked(record, &waiter, 0);
      last = TakeFramesLocked();
    }
    SendTaken(std::move(last));
  }
  {
    const FirstRunWait first_run;
    AwaitReply(waiter);
  }
  if (has_output_.load(std::memory_order_acquire)) DrainOutput();
  if (waiter.status != CUDA_SUCCESS) NoteLack(record.call, waiter.status);
  return waiter.status;
}

void Session::AwaitReply(Waiter& waiter) {
  std::lock_guard lock(wait_mutex_);
  while (!waiter.done.load(std::memory_order_acquire)) {
    if (ended_.load() != 0) [[unlikely]] {
      waiter.status = ended();
      std::erase(pending_, &waiter);
      break;
    }
    if (!pumping_) [[likely]]
      PumpUntil(waiter);
    else
      FollowUntilWoken(waiter);
  }
  ++waits_;
  if (!pumping_) PromoteLocked();
}

// Holds wait_mutex_, but not while it reads.
inline void Session::PumpUntil(Waiter& waiter) {
  pumping_ = true;
  wait_mutex_.unlock();
  while (!waiter.done.load(std::memory_order_acquire) &&
         ended_.load(std::memory_order_relaxed) == 0) {
    Status pumped = link_->Pump(Clock::time_point::max());  // until the link closes
    if (!pumped.ok()) [[unlikely]]
      OnClosed(pumped);
  }
  wait_mutex_.lock();
  pumping_ = false;
}

// Holds wait_mutex_, but not while it sleeps: another thread reads.
void Session::FollowUntilWoken(Waiter& waiter) {
  if (progress_pumps_ && !progress_called_) {
    progress_called_ = true;
    uint64_t one = 1;
    ssize_t ignored = write(progress_fd_, &one, sizeof(one));
    (void)ignored;
  }
  followers_.push_back(&waiter);
  waiter.wake.wait(wait_mutex_);
  std::erase(followers_, &waiter);
}

void Session::PollOnce() {
  if (appended_.load(std::memory_order_relaxed) != flushed_.load(std::memory_order_relaxed))
    Flush();
  link_->ExpectNews();
  std::unique_lock lock(wait_mutex_);
  if (pumping_ || ended_.load(std::memory_order_relaxed) != 0) return;
  pumping_ = true;
  lock.unlock();
  Status pumped = link_->Pump(Clock::time_point());
  if (!pumped.ok() && pumped.code() != Code::kTimeout) OnClosed(pumped);
  lock.lock();
  pumping_ = false;
  PromoteLocked();
}

// Hands the socket to a caller that still waits; without one the progress thread comes back by
// itself, unwoken: a wake costs a context switch in each synchronising call.
void Session::PromoteLocked() {
  for (Waiter* waiter : followers_) {
    if (!waiter->done.load(std::memory_order_relaxed)) {
      waiter->wake.notify_all();
      return;
    }
  }
}

void Session::ProgressLoop() {
  uint64_t seen_waits = 0;
  while (ended_.load(std::memory_order_relaxed) == 0) {
    {
      std::unique_lock lock(wait_mutex_);
      if (pumping_ || !followers_.empty() || waits_ != seen_waits) {
        seen_waits = waits_;
        progress_wake_.wait_until(lock, Clock::now() + kStayAway);
        if (pumping_ || waits_ != seen_waits) continue;
      }
      pumping_ = progress_pumps_ = true;
    }
    // Until something comes, a caller writes to the descriptor, or the link closes.
    Status pumped = link_->Pump(Clock::time_point::max(), progress_fd_);
    if (!pumped.ok() && pumped.code() != Code::kTimeout) OnClosed(pumped);
    {
      std::lock_guard lock(wait_mutex_);
      pumping_ = progress_pumps_ = false;
      if (progress_called_) {
        uint64_t drained;
        ssize_t ignored = read(progress_fd_, &drained, sizeof(drained));
        (void)ignored;
        progress_called_ = false;
        ++waits_;
      }
      PromoteLocked();
    }
    if (has_output_.load(std::memory_order_acquire)) DrainOutput();
  }
}

Status Session::OnFrame(const FrameView& frame) {
  // The frame's meaning holds once its bulk bytes have landed.
  if (frame.header.chunks_sent > link_->chunks_received()) {
    while (ended_.load() == 0) {
      Status landed = link_->WaitChunks(frame.header.chunks_sent, Clock::now() + kChunkSlice);
      if (landed.ok()) break;
      if (landed.code() != Code::kTimeout) return landed;
    }
  }
  RecordCursor cursor(frame.records);
  for (RecordView record; cursor.Next(record);) {
    const bool is_reply = (record.header.flags & kReply) != 0;
    FARCALL_TRY(is_reply ? HandleReply(record.header, record.body)
                         : HandlePush(record.header, Reader(record.body)));
  }
  return Status();
}

namespace {
[[gnu::noinline]] Status MalformedReply(const char* what, uint64_t value) {
  return Status(Code::kMalformed, what + std::to_string(value));
}
}  // namespace

// The caller that waits for the answer to that record, which it stops to do, or null.
inline Waiter* Session::TakePendingLocked(uint32_t serial) {
  for (Waiter*& pending : pending_) {
    if (pending->serial == serial) {
      Waiter* waiter = pending;
      pending = pending_.back();
      pending_.pop_back();
      return waiter;
    }
  }
  return nullptr;
}

inline Status Session::HandleReply(const RecordHeader& header, std::span<const std::byte> body) {
  if (body.size() < 8) [[unlikely]]
    return MalformedReply("a reply of so few bytes: ", body.size());
  int32_t status = 0;
  std::memcpy(&status, body.data(), sizeof(status));
  evidence_.fetch_add(1, std::memory_order_release);
  std::lock_guard lock(wait_mutex_);
  Waiter* waiter = TakePendingLocked(header.serial);
  if (waiter == nullptr) [[unlikely]]
    return MalformedReply("nobody waits for a reply to record ", header.serial);
  waiter->status = static_cast<CUresult>(status);
  if (waiter->reply != nullptr) {
    waiter->reply->status = waiter->status;
    const std::span outputs = body.subspan(8);
    std::copy(outputs.begin(), outputs.end(), waiter->reply->Allot(outputs.size()).begin());
  }
  waiter->done.store(true, std::memory_order_release);
  waiter->wake.notify_all();
  return Status();
}

bool Session::HandleOutput(Reader body) {
  auto bytes = body.GetBytes();
  const bool is_error = body.remaining_bytes() != 0 && body.Get<uint8_t>() != 0;
  if (!body.Done()) return false;
  std::lock_guard lock(output_queue_mutex_);
  std::string& text = is_error ? error_output_ : output_;
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  has_output_.store(true, std::memory_order_release);
  return true;
}

bool Session::HandleCompleted(Reader body) {
  auto event = body.Get<uint64_t>();
  auto serial = body.Get<uint32_t>();
  auto status = body.Get<int32_t>();
  std::optional<float> ms;
  if (body.remaining_bytes() >= sizeof(float)) ms = std::bit_cast<float>(body.Get<uint32_t>());
  if (!body.Done()) return false;
  NoteCompleted(event, serial, static_cast<CUresult>(status), ms);
  return true;
}

Status Session::HandlePush(const RecordHeader& header, Reader body) {
  if (header.call < kFirstSessionCall) {
    return Status(Code::kMalformed,
                  "the server sent call " + std::to_string(header.call) + " without a question");
  }
  switch (static_cast<SessionCall>(header.call)) {
    case SessionCall::kHeartbeat:
      return Status();
    case SessionCall::kGoodbye: {
      auto code = body.Get<int32_t>();
      std::string reason(body.GetString());
      if (!body.Done()) break;
      return Status(CodeOf(code), "the server ended the session: " + reason);
    }
    case SessionCall::kError:
      return HandleError(body);
    case SessionCall::kGrant: {
      auto device = body.Get<int32_t>();
      auto base = body.Get<uint64_t>();
      auto bytes = body.Get<uint64_t>();
      if (body.Done() && credit_.AddGrant(device, base, bytes)) return Status();
      break;
    }
    case SessionCall::kRecall: {
      auto device = body.Get<int32_t>();
      auto bytes = body.Get<uint64_t>();
      if (!body.Done()) break;
      ReturnCredit(this, device, bytes);
      return Status();
    }
    case SessionCall::kFreed: {
      auto slot = body.Get<uint16_t>();
      auto epoch = body.Get<uint64_t>();
      if (!body.Done()) break;
      credit_.Freed(slot, epoch);
      return Status();
    }
    case SessionCall::kUsed: {
      auto total_bytes = body.Get<uint64_t>();
      if (body.Done() && transfers_.Used(total_bytes)) return Status();
      break;
    }
    case SessionCall::kHostCall:
      return HandleHostCall(body);
    case SessionCall::kOutput:
      if (HandleOutput(body)) return Status();
      break;
    case SessionCall::kCompleted:
      if (HandleCompleted(body)) return Status();
      break;
    case SessionCall::kMirrored:
      if (NoteMirrored(body, index_)) return Status();
      break;
    case SessionCall::kHostShared:
      if (NoteHostShared(body, *link_)) return Status();
      break;
    case SessionCall::kLibraryFailed: {
      auto object = body.Get<uint64_t>();
      auto library = body.Get<uint16_t>();
      auto function = body.Get<uint16_t>();
      auto status = body.Get<int32_t>();
      if (!body.Done()) break;
      NoteLibraryFailure(object, library, function, status);
      return Status();
    }
    default:
      break;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "message 0x%X of the server is malformed", header.call);
  return Status(Code::kMalformed, text);
}

namespace {
// A library's call is said here only if it would have computed something.
bool IsLostWork(uint16_t call) {
  return InfoOf(call).LeavesResults() || call == static_cast<uint16_t>(SessionCall::kLibrary);
}
}  // namespace

Status Session::HandleError(Reader body) {
  auto serial = body.Get<uint32_t>();
  auto call = body.Get<uint16_t>();
  auto slot = body.Get<uint16_t>();
  auto status = static_cast<CUresult>(body.Get<int32_t>());
  std::string detail(body.GetString());
  if (!body.Done()) return Status(Code::kMalformed, "an error message of the server is malformed");
  transfers_.ForgetSerial(serial);
  const bool is_missing = InfoOf(call).effect == CallEffect::kWork && IsLackOfDevice(status);
  const bool is_lack = (is_missing || status == CUDA_ERROR_NOT_SUPPORTED) &&
                       Lacks().IsNew(CallName(call) + (": " + detail));
  Log(is_lack ? LogLevel::kWarn : LogLevel::kInfo, "%s failed on the server with %d: %s%s",
      CallName(call), static_cast<int>(status), detail.c_str(),
      is_missing ? "the device cannot do that, and its results are missing" : "");
  Context* context = ContextBySlot(slot);
  if (context != nullptr && status != CUDA_SUCCESS) {
    int none = 0;
    if (IsLostWork(call))
      context->lost_work.compare_exchange_strong(none, static_cast<int>(status));
    RecordLateError(context, status);
  }
  return Status();
}

Status Session::HandleHostCall(Reader body) {
  auto token = body.Get<uint64_t>();
  auto function = body.Get<uint64_t>();
  body.Get<uint64_t>();
  auto status = static_cast<CUresult>(body.Get<int32_t>());
  body.Get<uint64_t>();
  if (!body.Done()) return Status(Code::kMalformed, "a host call of the server is malformed");
  // The server names a registration of ours, never an address.
  if (!IsHostFunction(function))
    return Status(Code::kMalformed, "the server called an unknown host function");
  evidence_.fetch_add(1, std::memory_order_release);
  QueueHostCall([this, token, function, status] {
    RunHostFunction(function, status, [this, token] { SendHostDone(token); });
  });
  return Status();
}

void Session::SendHostDone(uint64_t token) {
  const ServerScope scope(this);
  NoteMirrorUse();  // the stream goes on with what the function wrote
  Builder done;
  done.Put<uint64_t>(token);
  Record record;
  record.call = static_cast<uint16_t>(SessionCall::kHostDone);
  record.head = done.bytes();
  PostRecord(record);
  Flush();
}

void Session::QueueHostCall(std::function<void()> work) {
  std::lock_guard lock(host_mutex_);
  host_queue_.push_back(std::move(work));
  if (!host_running_) host_running_ = StartThread("farcall-host", [this] { HostLoop(); });
  host_wake_.notify_one();
}

void Session::HostLoop() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(host_mutex_);
      host_wake_.wait(lock, [&] { return !host_queue_.empty(); });
      work = std::move(host_queue_.front());
      host_queue_.pop_front();
    }
    work();
  }
}

void Session::DrainOutput() {
  std::lock_guard writing(output_mutex_);
  std::string text, error;
  {
    std::lock_guard lock(output_queue_mutex_);
    text.swap(output_);
    error.swap(error_output_);
    has_output_.store(false, std::memory_order_relaxed);
  }
  if (!text.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
  if (!error.empty()) std::fwrite(error.data(), 1, error.size(), stderr);
}

std::span<std::byte> Session::ChunkDestination(const ChunkHeader& header) {
  return transfers_.Destination(header);
}
void Session::OnChunk(const ChunkHeader& header) {
  transfers_.Landed(header);
}

void Session::OnDetached(const Status& why) {
  if (leaving_.load()) return;
  said_lost_.store(true);
  Log(LogLevel::kWarn, "lost %s (%s); reconnecting for up to %u s", endpoint_.c_str(),
      why.message().c_str(), welcome_.grace_ms / 1000);
}

void Session::OnReattached() {
  if (said_lost_.exchange(false)) Log(LogLevel::kWarn, "reconnected to %s", endpoint_.c_str());
}

void Session::OnClosed(const Status& why) {
  int none = 0;
  CUresult code = MapSessionError(why.code() == Code::kOk ? Code::kDisconnected : why.code());
  if (ended_.compare_exchange_strong(none, code)) {
    UpdateAllClear();
    if (!leaving_.load()) {
      Log(LogLevel::kError, "the session with %s is over: %s", endpoint_.c_str(),
          why.message().c_str());
    }
    WakeFlusher();
  }
  transfers_.ForgetAll();
  if (HasSeveralServers()) SetLatchesOf(index_);
  std::lock_guard lock(wait_mutex_);
  FailWaiters(ended());
}

void Session::FailWaiters(CUresult code) {
  for (Waiter* waiter : pending_) {
    waiter->status = code;
    waiter->done.store(true, std::memory_order_release);
    waiter->wake.notify_all();
  }
  pending_.clear();
  for (Waiter* waiter : followers_) waiter->wake.notify_all();
  progress_wake_.notify_all();
}

}  // namespace farcall::client
