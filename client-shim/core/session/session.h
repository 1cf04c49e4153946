// SPDX-License-Identifier: Apache-2.0
// The client's end of a session: one shared batch, one link, waiting callers that read the socket
// themselves.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/core/memory/transfers.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/routing.h"
#include "client-shim/core/session/session_face.h"
#include "proto/handshake/handshake.h"
#include "sync/cond_var.h"
#include "transport/link.h"
#include "transport/sync.h"

namespace farcall::client {

// A caller that waits for a reply; lives on its stack.
struct Waiter {
  std::atomic<bool> done{false};
  CUresult status = CUDA_ERROR_UNKNOWN;
  Reply* reply = nullptr;  // may be nullptr: only the status is wanted
  uint32_t serial = 0;     // of its record
  CondVar wake;
};

struct Record {
  uint16_t call = 0;
  uint16_t thread = 0;
  uint16_t context = 0;
  uint16_t flags = 0;               // kBytesFollow
  std::span<const std::byte> head;  // the body, in up to two parts: fixed fields,
  std::span<const std::byte> tail;  // then inline bytes
};

class Session final : public LinkObserver {
 public:
  //   `index`   among the process's servers (routing.h)
  //   `window`  of device addresses, which the server took
  Session(const Welcome& welcome, std::string endpoint, uint8_t index = 0,
          const Window& window = {});
  // Called once, before any other use; starts the progress and flush threads.
  void Start(std::unique_ptr<Channel> channel, Link::Reconnect reconnect);

  const Welcome& welcome() const { return welcome_; }
  uint8_t index() const { return index_; }
  // Its server's address, however the endpoint names it.
  const std::string& place() const { return place_; }
  void set_place(std::string place) { place_ = std::move(place); }
  const Window& window() const { return window_; }
  Credit& credit() { return credit_; }
  // How many have been appended so far.
  uint64_t records() const { return appended_.load(std::memory_order_acquire); }
  // records() when the last was appended that a wait could tell of (work.h).
  uint64_t last_work() const { return last_work_.load(std::memory_order_acquire); }
  // The same of uploads whose bytes were captured.
  uint64_t last_upload() const { return last_upload_.load(std::memory_order_acquire); }
  // What was appended last is such a one, though its call is not.
  void NoteWork();
  bool Supports(CallId call) const;
  Link& link() { return *link_; }
  Transfers& transfers() { return transfers_; }

  // Appends a record.
  //   Thread  any, also one that pumps (with Leaves::kFlushed)
  CUresult PostRecord(const Record& record, const PostOptions& options = kPlainPost);
  // As PostRecord for work that is a whole record, padded; the serial is filled in here.
  void PostWhole(RecordHeader* header);
  // Appends, flushes, waits. The status is the API's, or a mapped one of our own failure.
  CUresult WaitRecord(const Record& record, Reply* reply);
  void Flush();
  // Takes in what has arrived, without waiting, unless another thread is reading.
  void PollOnce();
  // Grows with each reply and each call of a host function: what may tell the application that work
  // has completed.
  uint64_t evidence() const { return evidence_.load(std::memory_order_acquire); }

  // Writes what the driver printed so far through the application's stdout and stderr.
  void DrainOutput();
  // Runs on the callback thread, in order.
  void QueueHostCall(std::function<void()> work);

  CUresult ended() const { return static_cast<CUresult>(ended_.load(std::memory_order_acquire)); }
  // Says goodbye and closes, within bounded time. Every later call fails with `code`.
  void Leave(CUresult code);
  // In a forked child.
  void Abandon() { link_->Abandon(); }
  const std::string& endpoint() const { return endpoint_; }

  // LinkObserver
  Status OnFrame(const FrameView& frame) override;
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override;
  void OnChunk(const ChunkHeader& header) override;
  void OnDetached(const Status& why) override;
  void OnReattached() override;
  void OnClosed(const Status& why) override;

 private:
  uint32_t Append(const Record& record, Waiter* waiter, uint64_t transfer, size_t* sealed);
  uint32_t AppendLocked(const Record& record, Waiter* waiter, uint64_t transfer);
  std::unique_ptr<FrameBuffer> TakeFramesLocked();
  void SendTaken(std::unique_ptr<FrameBuffer>&& last);
  void SendOne(std::unique_ptr<FrameBuffer>&& frame);
  void SealLocked();
  std::byte* RoomLocked(size_t bytes);
  std::byte* FreshRoomLocked(size_t bytes);
  void CommitLocked(size_t bytes, bool quiet);
  void SendLater(size_t sealed);
  void WakeFlusher();
  bool FallAsleep();
  bool HasSealed();
  void AwaitReply(Waiter& waiter);
  void PumpUntil(Waiter& waiter);
  void FollowUntilWoken(Waiter& waiter);
  Waiter* TakePendingLocked(uint32_t serial);
  void PromoteLocked();
  void ProgressLoop();
  void FlushLoop();
  void HostLoop();
  Status HandleReply(const RecordHeader& header, std::span<const std::byte> body);
  Status HandlePush(const RecordHeader& header, Reader body);
  // False: malformed.
  bool HandleOutput(Reader body);
  bool HandleCompleted(Reader body);
  Status HandleError(Reader body);
  Status HandleHostCall(Reader body);
  void SendHostDone(uint64_t token);
  void FailWaiters(CUresult code);

  const Welcome welcome_;
  const std::string endpoint_;
  std::string place_;
  const uint8_t index_;
  const Window window_;
  Credit credit_;
  std::unique_ptr<Link> link_;
  Transfers transfers_;
  std::atomic<int> ended_{0};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> said_lost_{false};
  std::atomic<uint64_t> evidence_{0};

  // The batch. batch_mutex_ is never held across a send; send_mutex_ keeps frames in order.
  Mutex batch_mutex_;
  std::unique_ptr<FrameBuffer> open_;
  using Frames = std::vector<std::unique_ptr<FrameBuffer>>;
  Frames sealed_;
  size_t sealed_count_ = 0;  // of those: each post looks at it
  size_t frames_ahead_ = 0;
  uint32_t serial_ = 0;
  Mutex send_mutex_;
  Frames sending_;                     // under send_mutex_: what a flush took; keeps its memory
  std::atomic<uint64_t> appended_{0};  // records so far: tells the flusher idle from busy
  std::atomic<uint64_t> last_upload_{0};
  std::atomic<uint64_t> last_work_{0};  // grows
  std::atomic<uint64_t> flushed_{0};
  std::atomic<bool> flusher_sleeps_{false};
  Mutex flusher_mutex_;
  CondVar flusher_wake_;

  // Who reads the socket: one waiting caller, else the progress thread.
  Mutex wait_mutex_;
  // Few at a time: as many as threads that wait.
  std::vector<Waiter*> pending_;
  std::vector<Waiter*> followers_;
  bool pumping_ = false;
  bool progress_pumps_ = false;
  bool progress_called_ = false;  // an eventfd write is under way to it
  uint64_t waits_ = 0;            // that callers have ended, or begun while another thread read
  CondVar progress_wake_;
  int progress_fd_ = -1;

  std::mutex output_mutex_;  // held while writing
  std::mutex output_queue_mutex_;
  std::string output_, error_output_;
  std::atomic<bool> has_output_{false};

  std::mutex host_mutex_;
  CondVar host_wake_;
  std::deque<std::function<void()>> host_queue_;
  bool host_running_ = false;
};

inline std::byte* Session::RoomLocked(size_t bytes) {
  std::byte* room = open_ != nullptr ? open_->RoomFor(bytes) : nullptr;
  return room != nullptr ? room : FreshRoomLocked(bytes);
}

inline void Session::CommitLocked(size_t bytes, bool quiet) {
  open_->Commit(bytes);
  const uint64_t appended = appended_.load(std::memory_order_relaxed) + 1;
  if (!quiet) last_work_.store(appended, std::memory_order_release);
  appended_.store(appended, std::memory_order_release);
  static_assert(kBatchBytes / sizeof(RecordHeader) < UINT16_MAX);  // the header can count them
  if (open_->used_bytes() >= kBatchBytes) [[unlikely]]
    SealLocked();
}

// The flusher sends, so that a busy caller makes no system call; one that is ahead of it helps.
inline void Session::SendLater(size_t sealed) {
  if (sealed > frames_ahead_) [[unlikely]]
    Flush();
  else if (flusher_sleeps_.load(std::memory_order_relaxed)) [[unlikely]]
    WakeFlusher();
}

inline void Session::PostWhole(RecordHeader* header) {
  size_t sealed = 0;
  {
    std::lock_guard lock(batch_mutex_);
    std::byte* at = RoomLocked(header->bytes);
    header->serial = ++serial_;
    std::memcpy(at, header, header->bytes);
    CommitLocked(header->bytes, false);
    sealed = sealed_count_;
  }
  SendLater(sealed);
}

// The live session, or nullptr; of several servers the first's.
extern std::atomic<Session*> g_session;

// Where this process stands. kForked: in a child of a process that had begun.
enum class Life : int { kNone, kReady, kForked, kLeft };
extern std::atomic<Life> g_life;

// Connects if not connected. Failure: one line in the log, the code cuInit should return.
CUresult ConnectSession();
// cuInit.
CUresult Initialise();
bool IsInitialised();
// Where the calling thread's present call goes (routing.h), or nullptr; without connecting.
inline Session* CurrentSession() {
  if (HasSeveralServers()) [[unlikely]]
    return RoutedSession();
  return g_session.load(std::memory_order_acquire);
}

// Starts a thread of ours: signals blocked, detached. False: the system refused.
bool StartThread(const char* name, std::function<void()> body);

// Hand-written calls' record of the calling thread and its current context.
Record MakeRecord(CallId call, std::span<const std::byte> head,
                  std::span<const std::byte> tail = {});

}  // namespace farcall::client
