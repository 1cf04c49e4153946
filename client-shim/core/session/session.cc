// SPDX-License-Identifier: Apache-2.0
// The outgoing half of a session, and its life: batch, flush, start, goodbye.
#include "client-shim/core/session/session.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "client-shim/core/report/log.h"
#include "client-shim/core/report/stats.h"
#include "client-shim/core/session/config.h"
#include "client-shim/core/session/error_map.h"
#include "generated/proto/call_info.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {

std::atomic<Session*> g_session{nullptr};

namespace {
constexpr auto kIdleTick = std::chrono::microseconds(50);
constexpr int kTicksBeforeSleep = 20;
constexpr int kTicksOfTrickle = 4;
constexpr size_t kFramesAhead = 16;  // of the flusher, before a caller sends itself
}  // namespace

bool StartThread(const char* name, std::function<void()> body) {
  struct Start {
    const char* name;
    std::function<void()> body;
  };
  auto* start = new Start{name, std::move(body)};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  auto run = [](void* raw) -> void* {
    auto* begun = static_cast<Start*>(raw);
    pthread_setname_np(pthread_self(), begun->name);
    begun->body();
    delete begun;
    return nullptr;
  };
  bool started = pthread_create(&thread, nullptr, run, start) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started)
    pthread_detach(thread);
  else
    delete start;
  return started;
}

Session::Session(const Welcome& welcome, std::string endpoint, uint8_t index, const Window& window)
    : welcome_(welcome), endpoint_(std::move(endpoint)), index_(index), window_(window) {}

void Session::Start(std::unique_ptr<Channel> channel, Link::Reconnect reconnect) {
  LinkOptions options;
  options.is_client = true;
  options.lanes = welcome_.lanes;
  options.grace_ms = welcome_.grace_ms;
  options.heartbeat_ms = welcome_.heartbeat_ms;
  if (HasFeature(welcome_, SessionFeature::kIdleSilence)) options.idle_after_ms = kIdleAfterMs;
  if (HasFeature(welcome_, SessionFeature::kPackedChunks)) options.packing = GetConfig().packing;
  link_ = std::make_unique<Link>(*this, options, std::move(reconnect));
  link_->AttachLog(std::move(channel), 0, 0);
  frames_ahead_ = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? kFramesAhead : 0;
  progress_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (!StartThread("farcall-progres", [this] { ProgressLoop(); }) ||
      !StartThread("farcall-flush", [this] { FlushLoop(); }))
    OnClosed(Status(Code::kUnavailable, "no more threads can be started"));
}

bool Session::Supports(CallId call) const {
  size_t id = static_cast<size_t>(call);
  return id / 8 < welcome_.supported_calls.size() &&
         (welcome_.supported_calls[id / 8] >> (id % 8) & 1) != 0;
}

std::byte* Session::FreshRoomLocked(size_t bytes) {
  if (open_ != nullptr) SealLocked();
  open_ = link_->TakeBuffer(bytes > kBatchRoomBytes ? bytes : kBatchRoomBytes);
  return open_->RoomFor(bytes);
}

void Session::SealLocked() {
  sealed_.push_back(std::move(open_));
  sealed_count_ = sealed_.size();
}

uint32_t Session::Append(const Record& record, Waiter* waiter, uint64_t transfer, size_t* sealed) {
  std::lock_guard lock(batch_mutex_);
  const uint32_t serial = AppendLocked(record, waiter, transfer);
  *sealed = sealed_count_;
  return serial;
}

uint32_t Session::AppendLocked(const Record& record, Waiter* waiter, uint64_t transfer) {
  size_t body = record.head.size() + record.tail.size();
  size_t bytes = AlignUp(sizeof(RecordHeader) + body, 8);
  RecordHeader header;
  header.bytes = static_cast<uint32_t>(bytes);
  header.call = record.call;
  header.flags = record.flags;
  if (waiter != nullptr) header.flags |= kWantReply;
  header.thread = record.thread;
  header.context = record.context;
  std::byte* at = RoomLocked(bytes);
  header.serial = ++serial_;
  std::memcpy(at, &header, sizeof(header));
  std::byte* end = at + sizeof(header);
  if (!record.head.empty()) std::memcpy(end, record.head.data(), record.head.size());
  end += record.head.size();
  if (!record.tail.empty()) std::memcpy(end, record.tail.data(), record.tail.size());
  end += record.tail.size();
  if (end != at + bytes) std::memset(end, 0, at + bytes - end);
  if (waiter != nullptr) {
    waiter->serial = header.serial;
    std::lock_guard waiting(wait_mutex_);
    pending_.push_back(waiter);
  }
  if (transfer != 0) transfers_.BindSerial(transfer, header.serial);
  const CallInfo& info = InfoOf(record.call);
  const bool is_session_call = record.call >= kFirstSessionCall &&
                               record.call != static_cast<uint16_t>(SessionCall::kLibrary);
  bool quiet = is_session_call || info.quiet ||
               (waiter != nullptr && info.waits);  // done by the time it is answered
  CommitLocked(bytes, quiet);
  if (info.effect == CallEffect::kWork && info.quiet)  // an upload
    last_upload_.store(appended_.load(std::memory_order_relaxed));
  return header.serial;
}

void Session::NoteWork() {
  std::lock_guard lock(batch_mutex_);
  last_work_.store(appended_.load(std::memory_order_relaxed));
}

CUresult Session::PostRecord(const Record& record, const PostOptions& options) {
  if (ended_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return ended();
  size_t sealed = 0;
  const uint32_t serial = Append(record, nullptr, options.transfer, &sealed);
  if (options.serial != nullptr) *options.serial = serial;
  if (options.leaves == Leaves::kNow)
    Flush();
  else
    SendLater(options.leaves == Leaves::kLater ? sealed : 0);
  return CUDA_SUCCESS;
}

void Session::WakeFlusher() {
  std::lock_guard lock(flusher_mutex_);
  flusher_sleeps_.store(false);
  flusher_wake_.notify_all();
}

// Says under the batch's lock that it sleeps: who appends behind that sees it, so no record is
// missed and no timer has to look.
bool Session::FallAsleep() {
  std::lock_guard lock(batch_mutex_);
  const bool is_idle =
      appended_.load(std::memory_order_relaxed) == flushed_.load(std::memory_order_relaxed);
  if (is_idle) flusher_sleeps_.store(true);
  return is_idle;
}

// Whoever holds send_mutex_ sends everything sealed so far, so frames leave in the order they were
// filled.
void Session::Flush() {
  std::lock_guard sending(send_mutex_);
  std::unique_ptr<FrameBuffer> last;
  {
    std::lock_guard lock(batch_mutex_);
    last = TakeFramesLocked();
  }
  SendTaken(std::move(last));
}

// Holds send_mutex_ and batch_mutex_. The last of them, or null; the others are in sending_.
std::unique_ptr<FrameBuffer> Session::TakeFramesLocked() {
  if (sealed_count_ != 0) [[unlikely]] {
    sending_.swap(sealed_);
    sealed_count_ = 0;
  }
  flushed_.store(appended_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return std::move(open_);
}

// Holds send_mutex_.
void Session::SendTaken(std::unique_ptr<FrameBuffer>&& last) {
  if (!sending_.empty()) [[unlikely]] {
    for (auto& frame : sending_) SendOne(std::move(frame));
    sending_.clear();
  }
  if (last != nullptr) SendOne(std::move(last));
}

inline void Session::SendOne(std::unique_ptr<FrameBuffer>&& frame) {
  Status sent = link_->SendFrame(std::move(frame));
  if (!sent.ok()) [[unlikely]]
    OnClosed(sent);
}

bool Session::HasSealed() {
  std::lock_guard lock(batch_mutex_);
  return sealed_count_ != 0;
}

void Session::FlushLoop() {
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  uint64_t seen = 0;
  int idle_ticks = 0, waited_ticks = 0;
  while (ended_.load(std::memory_order_relaxed) == 0) {
    uint64_t appended = appended_.load(std::memory_order_acquire);
    if (appended != flushed_.load(std::memory_order_relaxed)) {
      // Full frames; a batch nobody added to for a tick, or one that fills too slowly.
      if (appended == seen || ++waited_ticks >= kTicksOfTrickle || HasSealed()) {
        Flush();
        waited_ticks = 0;
      }
      idle_ticks = 0;
    } else if (++idle_ticks > kTicksBeforeSleep) {
      idle_ticks = 0;
      if (FallAsleep()) {
        std::unique_lock lock(flusher_mutex_);
        while (flusher_sleeps_.load() && ended_.load() == 0) flusher_wake_.wait(lock);
        continue;  // what woke it is there: no tick before it is looked at
      }
    }
    seen = appended;
    struct timespec tick = {0, std::chrono::nanoseconds(kIdleTick).count()};
    nanosleep(&tick, nullptr);
  }
}

void Session::Leave(CUresult code) {
  if (leaving_.exchange(true) || ended_.load() != 0) return;
  Flush();
  int none = 0;
  ended_.compare_exchange_strong(none, code);
  UpdateAllClear();
  WakeFlusher();
  link_->Close(Status(Code::kOk, "the process ends"));  // says goodbye itself
}

}  // namespace farcall::client
